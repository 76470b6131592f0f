"""Hats of several sizes at any nodes, as ReLU layers.

In steps of the finest grid, y = m·x, the hat of a node g of reach r (1 for the finest level, 2 for
the one before, ...) is, with s = ReLU(max_i (y_i - g_i)) + ReLU(-min_i (y_i - g_i)),

    hat_g = ReLU(1 - s/r) = ReLU(r - s)/r.

With r = 1 it is the hat of the Kuhn triangulation: 1 at g, 0 at all other nodes, linear where a
cube is cut by the order of its coordinates; with another r the same in steps of r.

Nodes on one diagonal, g = h + c·(1, ..., 1), share their extremes: max_i (y_i - g_i) = M - c and
min_i (y_i - g_i) = N - c with M, N those of h. So for every diagonal h (with min_i h_i = 0)

    a tournament (⌈log2 D⌉ layers) finds M and N;
    then each layer deals with `chunk` nodes of the diagonal in two ways:
      it puts s = ReLU(M - c) + ReLU(c - N) into node features, for the next nodes,
      it adds ReLU(r - s) (value/r) to the values, and clears s - ReLU(s) = 0, for those before;
    the last layers do the second only, and clear the tournament's scratch in the same way.

All weights but value/r are whole numbers, and a node whose hat is 0 adds an exact 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from anyseq.construct.gadgets.blank import blank_feed_forward
from anyseq.construct.gadgets.tournament import tournament
from anyseq.construct.lattice import strides
from anyseq.nn import FeedForwardLayers, Layers


@dataclass(frozen=True)
class HatWiring:
    """Where hats read and write, and how large their layers are.

    chunk: nodes a layer. hidden: 4·chunk or more, and enough for a round of the tournament.
    """

    axes: int
    steps: int
    chunk: int
    layers: int
    hidden: int
    width: int
    slots_at: int
    values_at: int
    scratch_at: int
    nodes_at: int


@dataclass(frozen=True, eq=False)
class Hats:
    """nodes (N, D) whole numbers from 0 to m, in lexicographic order; reach (N,), powers of two."""

    nodes: torch.Tensor
    reach: torch.Tensor

    @cached_property
    def along(self) -> torch.Tensor:
        """(N,): c of the node h + c·(1, ..., 1) on its diagonal h."""
        return self.nodes.amin(1)

    @cached_property
    def _diagonals(self) -> tuple[torch.Tensor, torch.Tensor]:
        """(N,) the diagonal of each node, and (diagonals,) how many nodes are on it."""
        stride = torch.tensor(strides(int(self.nodes.max()) + 1, self.nodes.shape[1]))
        starts = (self.nodes - self.along[:, None]) @ stride
        _, diagonal, length = starts.unique(return_inverse=True, return_counts=True)
        return diagonal, length

    @property
    def longest(self) -> int:
        """The most nodes on a diagonal."""
        return int(self._diagonals[1].max())

    def _sizes(self, chunk: int, hidden: int) -> torch.Tensor:
        """(diagonals,): layers of each: the tournament, the chunks, the clearing."""
        plan = tournament(self.nodes.shape[1])
        last = -(-(2 * chunk + plan.scratch) // hidden)
        chunks = (self._diagonals[1] + chunk - 1) // chunk
        return len(plan.rounds) + chunks + last

    def layers(self, chunk: int, hidden: int) -> int:
        """How many layers `add` has."""
        return int(self._sizes(chunk, hidden).sum())

    def add(self, values: torch.Tensor, wiring: HatWiring) -> Layers:
        """Add Σ_g hat_g(slots) values[g] to the value features; values (N, V)."""
        diagonal, length = self._diagonals
        size = self._sizes(wiring.chunk, wiring.hidden)
        first = size.cumsum(0) - size
        order = diagonal.argsort(stable=True)
        rank = torch.empty_like(order)
        rank[order] = torch.arange(len(order)) - (length.cumsum(0) - length)[diagonal[order]]
        starts = torch.empty(len(length), wiring.axes, dtype=torch.int64)
        starts[diagonal] = self.nodes - self.along[:, None]

        layers = blank_feed_forward(int(size.sum()), wiring.hidden, wiring.width)
        board = _Board(layers, wiring)
        board.tournaments(first, starts)
        rounds = len(tournament(wiring.axes).rounds)
        fills = first[diagonal] + rounds + rank // wiring.chunk
        for slot in range(wiring.chunk):
            used = rank % wiring.chunk == slot
            start, c, reach = starts[diagonal[used]], self.along[used], self.reach[used]
            board.hats(slot, fills[used], start, c, reach.double(), values[used])
        board.clear(first + rounds + (length + wiring.chunk - 1) // wiring.chunk)
        return Layers(feedforward=layers)


@dataclass(frozen=True)
class _Board:
    """Writes units into layers of zeros."""

    layers: FeedForwardLayers
    wiring: HatWiring

    def tournaments(self, first: torch.Tensor, starts: torch.Tensor) -> None:
        """From the layers `first` on: the scratch of the tournament among y_i - h_i."""
        filled = self.wiring.scratch_at
        for level, forms in enumerate(tournament(self.wiring.axes).rounds):
            for unit, form in enumerate(forms):
                self._form(first + level, unit, form, starts, torch.zeros(()))
                self.layers.down_weight[first + level, filled, unit] = 1.0
                filled += 1

    def hats(
        self,
        slot: int,
        rows: torch.Tensor,
        starts: torch.Tensor,
        along: torch.Tensor,
        reach: torch.Tensor,
        values: torch.Tensor,
    ) -> None:
        """s into node feature `slot` by the layers `rows`; the next ones add the hat, and clear."""
        layers, wiring, plan = self.layers, self.wiring, tournament(self.wiring.axes)
        feature, clearing = wiring.nodes_at + slot, wiring.chunk + slot
        above = 2 * wiring.chunk + 2 * slot
        self._form(rows, above, plan.highest, starts, -along)
        self._form(rows, above + 1, -plan.lowest, starts, along)
        layers.down_weight[rows, feature, above] = 1.0
        layers.down_weight[rows, feature, above + 1] = 1.0
        layers.up_weight[rows + 1, slot, feature] = -1.0
        layers.up_bias[rows + 1, slot] = reach
        end = wiring.values_at + values.shape[1]
        layers.down_weight[rows + 1, wiring.values_at : end, slot] = values / reach[:, None]
        layers.up_weight[rows + 1, clearing, feature] = 1.0
        layers.down_weight[rows + 1, feature, clearing] = -1.0

    def clear(self, first: torch.Tensor) -> None:
        """From the layers `first` on: the scratch becomes 0."""
        for spare in range(tournament(self.wiring.axes).scratch):
            later, unit = divmod(2 * self.wiring.chunk + spare, self.wiring.hidden)
            at = self.wiring.scratch_at + spare
            self.layers.up_weight[first + later, unit, at] = 1.0
            self.layers.down_weight[first + later, at, unit] = -1.0

    def _form(
        self,
        rows: torch.Tensor,
        unit: int,
        form: torch.Tensor,
        at: torch.Tensor,
        shift: torch.Tensor,
    ) -> None:
        """Unit = form(y - at, scratch) + shift, for the layers `rows`."""
        wiring, axes = self.wiring, self.wiring.axes
        slots = slice(wiring.slots_at, wiring.slots_at + axes)
        scratch = slice(wiring.scratch_at, wiring.scratch_at + len(form) - axes)
        self.layers.up_weight[rows, unit, slots] = form[:axes] * wiring.steps
        self.layers.up_weight[rows, unit, scratch] = form[axes:]
        self.layers.up_bias[rows, unit] = shift - at.double() @ form[:axes]
