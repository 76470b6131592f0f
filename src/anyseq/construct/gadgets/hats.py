"""Hats of several sizes at any nodes, as ReLU layers.

In steps of the finest grid, y = m·x, the hat of a node g of reach r (1 for the finest level, 2 for
the one before, ...) is, with s = ReLU(max_i (y_i - g_i)) + ReLU(-min_i (y_i - g_i)),

    hat_g = ReLU(1 - s/r).

With r = 1 it is the hat of the Kuhn triangulation: 1 at g, 0 at all other nodes, linear where a
cube is cut by the order of its coordinates; with another r the same in steps of r.

As in `anyseq.construct.gadgets.interpolator`, whose argument holds in steps of r: hats of one reach
with values a add up to

    Σ_g ∇a(g) (ReLU(t - c + r) - ReLU(t - c + ν_h))/r,    ν_h = min(r, max_i ReLU(h_i - y_i)),

g = (h, c) with c on the last axis, t = y_D, and ∇a the mixed difference in steps of r, a being 0
where there is no node. So ∇a is 0 but at nodes and up to one step beyond: the *corners*. Those
outside the cube add 0. The corners with one r and one h are a *fibre*, with a ReLU a corner.

Two kinds of ReLUs need no ν, and are there once for all fibres. Summed over h, ∇a(h, c) is the
difference along the last axis at the largest h, (m, ..., m): of a node there the first parts leave
a (ReLU(t - c + r) - ReLU(t - c))/r. And for h = 0 ν is 0: of a node there the second parts leave
a (ReLU(t - c - r) - ReLU(t - c))/r. These are ReLU(t - k), 0 <= k < m, and a constant, since
ReLU(t - k) = t - k for k <= 0.

ν is the sum of scratch features e_i >= 0, one for each axis but the last, with v = e_1 + ... +
e_(i-1) and

    e_i = ReLU(h_i - y_i - v) - ReLU(h_i - y_i - r),    0 where h_i = 0.

Fibres come by descending r, and then in lexicographic order. From one to the next the axes before
the first that differs keep their e_i. The last layer of a fibre clears all others, which leave by
ReLU(e_i + 1) - 1, and fills the first of them that is not 0; each further one takes a layer of its
own, since it needs those before. In the end what lies among the outputs leaves by
ReLU(e_i) - ReLU(-e_i): that is exactly 0 then. At the nodes all numbers but values are whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

import torch

from anyseq.construct.counting.lattice import strides
from anyseq.construct.gadgets.blank import blank_feed_forward
from anyseq.nn import FeedForwardLayers, Layers


@dataclass(frozen=True)
class HatWiring:
    """Where hats read and write, and how large their layers are.

    scratch: `axes` - 1 features. Those of the first fibre need not be 0 before the layer that fills
    them has cleared them, by ReLUs that the caller adds. leave: how many of them, the first ones,
    must be 0 in the end. spare: ReLUs of the first layer that are left to the caller.
    """

    layers: int
    hidden: int
    width: int
    slots_at: int
    values_at: int
    scratch: tuple[int, ...]
    leave: int
    spare: int


class _Corners(NamedTuple):
    """What ∇ adds up: nodes (P,), with signs (P,), each counting for a corner (P,). The corners in
    the order of fibres: their numbers (C,) in the finest grid, and reach (C,)."""

    nodes: torch.Tensor
    signs: torch.Tensor
    corner: torch.Tensor
    numbers: torch.Tensor
    reach: torch.Tensor


@dataclass(frozen=True, eq=False)
class _Fibres:
    """F fibres in order: reach (F,), h (F, D-1), and how many corners (F,)."""

    reach: torch.Tensor
    h: torch.Tensor
    corners: torch.Tensor

    @cached_property
    def same(self) -> torch.Tensor:
        """(F, D-1) bool: whether e_i is that of the fibre before."""
        equal = (self.h[1:] == self.h[:-1]) & (self.reach[1:] == self.reach[:-1])[:, None]
        kept = equal.long().cumprod(1).bool()
        return torch.cat([torch.zeros_like(self.h[:1], dtype=torch.bool), kept])

    @cached_property
    def fills(self) -> torch.Tensor:
        """(F, D-1): 1 for the first e_i that comes with the fibre, 2 for the next, ...; else 0."""
        new = (self.h > 0) & ~self.same
        return new * new.long().cumsum(1)

    @cached_property
    def clears(self) -> torch.Tensor:
        """(F, D-1): 1 for the first e_i that goes with the fibre, 2 for the next, ...; else 0, and
        after the last fibre."""
        kept = torch.cat([self.same[1:], torch.ones_like(self.same[:1])])
        gone = (self.h > 0) & ~kept
        return gone * gone.long().cumsum(1)


@dataclass(frozen=True, eq=False)
class Hats:
    """nodes (N, D) whole numbers from 0 to m = steps, no two alike; reach (N,), powers of two that
    divide m; that of a node divides all its coordinates."""

    nodes: torch.Tensor
    reach: torch.Tensor
    steps: int

    @property
    def axes(self) -> int:
        return self.nodes.shape[1]

    @cached_property
    def _corners(self) -> _Corners:
        """Those of all levels in turn, but for h = 0."""
        stride = torch.tensor(strides(self.steps + 1, self.axes))
        ways = torch.tensor(list(product((0, 1), repeat=self.axes)))
        found, before = [], 0
        for reach in self.reach.unique().flip(0).tolist():
            own = (self.reach == reach).nonzero()[:, 0]
            at = self.nodes[own, None] + reach * ways
            inside = (at <= self.steps).all(2) & (at[..., :-1] > 0).any(2)
            node, way = inside.nonzero(as_tuple=True)
            numbers, corner = (at[node, way] @ stride).unique(return_inverse=True)
            signs = 1 - 2 * (ways[way].sum(1) % 2)
            levels = torch.full_like(numbers, reach)
            found.append((own[node], signs, corner + before, numbers, levels))
            before += len(numbers)
        return _Corners(*(torch.cat(part) for part in zip(*found, strict=True)))

    @cached_property
    def _fibres(self) -> _Fibres:
        per_axis, corners = self.steps + 1, self._corners
        names = torch.stack([corners.reach, corners.numbers // per_axis])
        first = torch.ones(names.shape[1], dtype=torch.bool)
        first[1:] = (names[:, 1:] != names[:, :-1]).any(0)
        (starts,) = first.nonzero(as_tuple=True)
        ends = torch.cat([starts[1:], torch.tensor([len(first)])]) if len(starts) else starts
        stride = torch.tensor(strides(per_axis, self.axes - 1), dtype=torch.int64)
        return _Fibres(names[0, starts], names[1, starts, None] // stride % per_axis, ends - starts)

    @cached_property
    def _free(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """ReLUs without ν: nodes (P,), k (P,), signs (P,), so that each is sign·a/r ReLU(t - k)."""
        h, c = self.nodes[:, :-1], self.nodes[:, -1]
        (top,) = (h == self.steps).all(1).nonzero(as_tuple=True)
        (zero,) = (h == 0).all(1).nonzero(as_tuple=True)
        rows = torch.cat([top, top, zero, zero])
        k = torch.cat([c[top] - self.reach[top], c[top], c[zero], c[zero] + self.reach[zero]])
        signs = torch.tensor([1, -1, -1, 1]).repeat_interleave(
            torch.tensor([len(top), len(top), len(zero), len(zero)])
        )
        return rows, k, signs

    @cached_property
    def _thresholds(self) -> torch.Tensor:
        """The k that ReLUs without ν have."""
        k: torch.Tensor = self._free[1].clamp(min=0).unique()
        return k[k < self.steps]

    @cached_property
    def longest(self) -> int:
        """The most ReLUs that are of use in a layer, but for those between fibres."""
        fibres: list[int] = self._fibres.corners.tolist()
        return max([len(self._thresholds), *fibres])

    def _rows(self, hidden: int, spare: int, leave: int) -> torch.Tensor:
        """(1 + F,): layers of the ReLUs without ν, and of every fibre; the last of them leads on,
        and those that fill further e_i of the next one are not counted."""
        fibres = self._fibres
        count = torch.cat([torch.tensor([len(self._thresholds) + spare]), fibres.corners])
        leads = torch.full((len(count),), 2)
        leads[1:] += (fibres.clears > 0).sum(1)
        leads[-1] = 2 * leave
        return (count + leads + hidden - 1) // hidden

    @cached_property
    def _more(self) -> torch.Tensor:
        """(F,): layers that fill further e_i of a fibre."""
        return (self._fibres.fills > 1).sum(1)

    def layers(self, hidden: int, spare: int, leave: int) -> int:
        """How many layers `add` has."""
        return int(self._rows(hidden, spare, leave).sum() + self._more.sum())

    def add(self, values: torch.Tensor, wiring: HatWiring) -> Layers:
        """Add Σ_g hat_g(slots) values[g] to the value features; values (N, V)."""
        layers = blank_feed_forward(wiring.layers, wiring.hidden, wiring.width)
        share = values / self.reach[:, None]
        into = slice(wiring.values_at, wiring.values_at + values.shape[1])
        board = _Board(layers, wiring, self.steps, self.axes, into)
        size = self._rows(wiring.hidden, wiring.spare, wiring.leave)
        size[1:] += self._more
        ends, fibres = size.cumsum(0), self._fibres
        board.free(self._thresholds, *self._weights(share))
        corners = self._corners
        weight = torch.zeros(len(corners.numbers), values.shape[1], dtype=torch.float64)
        weight.index_add_(0, corners.corner, -corners.signs[:, None] * share[corners.nodes])
        c = corners.numbers % (self.steps + 1)
        board.corners(ends[:-1] + self._more, fibres.corners, c, weight)
        board.lead(fibres, ends)
        board.leave()
        return Layers(feedforward=layers)

    def _weights(self, share: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Of the ReLUs without ν (thresholds, V), and the constant (V,)."""
        rows, k, signs = self._free
        each = signs[:, None] * share[rows]
        constant = -(k.clamp(max=0)[:, None] * each).sum(0)
        inside = k < self.steps
        at = torch.searchsorted(self._thresholds, k[inside].clamp(min=0))
        weight = torch.zeros(len(self._thresholds), share.shape[1], dtype=torch.float64)
        return weight.index_add_(0, at, each[inside]), constant


@dataclass(frozen=True)
class _Board:
    """Writes ReLUs into layers of zeros."""

    layers: FeedForwardLayers
    wiring: HatWiring
    steps: int
    axes: int
    into: slice

    @property
    def _last_slot(self) -> int:
        return self.wiring.slots_at + self.axes - 1

    def free(self, k: torch.Tensor, weight: torch.Tensor, constant: torch.Tensor) -> None:
        """ReLU(t - k), from the first layer on, and a constant."""
        layers, number = self.layers, self.wiring.spare + torch.arange(len(k))
        row, unit = number // self.wiring.hidden, number % self.wiring.hidden
        layers.up_weight[row, unit, self._last_slot] = float(self.steps)
        layers.up_bias[row, unit] = -k.double()
        layers.down_weight[row, self.into, unit] = weight
        layers.down_bias[0, self.into] = constant

    def corners(
        self, starts: torch.Tensor, counts: torch.Tensor, c: torch.Tensor, weight: torch.Tensor
    ) -> None:
        """ReLU(t - c + ν): those of each fibre from its layer `starts` on."""
        layers, hidden = self.layers, self.wiring.hidden
        number = torch.arange(len(c)) - (counts.cumsum(0) - counts).repeat_interleave(counts)
        row, unit = starts.repeat_interleave(counts) + number // hidden, number % hidden
        layers.up_weight[row, unit, self._last_slot] = float(self.steps)
        for feature in self.wiring.scratch:
            layers.up_weight[row, unit, feature] = 1.0
        layers.up_bias[row, unit] = -c.double()
        layers.down_weight[row, self.into, unit] = weight

    def lead(self, fibres: _Fibres, ends: torch.Tensor) -> None:
        """From one fibre to the next: `ends` are the layers after each, those before the first."""
        layers, hidden = self.layers, self.wiring.hidden
        for axis, feature in enumerate(self.wiring.scratch):
            (gone,) = fibres.clears[:, axis].nonzero(as_tuple=True)
            last, unit = ends[1:][gone] - 1, hidden - 2 - fibres.clears[gone, axis]
            layers.up_weight[last, unit, feature] = 1.0
            layers.up_bias[last, unit] = 1.0
            layers.down_weight[last, feature, unit] = -1.0
            layers.down_bias[last, feature] = 1.0
            for turn in range(1, axis + 2):
                (now,) = (fibres.fills[:, axis] == turn).nonzero(as_tuple=True)
                self._fill(fibres, now, axis, ends[now] - 2 + turn, turn)

    def _fill(
        self, fibres: _Fibres, now: torch.Tensor, axis: int, row: torch.Tensor, turn: int
    ) -> None:
        """e of the axis comes with the fibres `now`, in these layers."""
        layers, scratch, hidden = self.layers, self.wiring.scratch, self.wiring.hidden
        h, reach = fibres.h[now, axis].double(), fibres.reach[now].double()
        for unit, less, sign in ((hidden - 1, 0.0 * reach, 1.0), (hidden - 2, reach, -1.0)):
            layers.up_weight[row, unit, self.wiring.slots_at + axis] = -float(self.steps)
            layers.up_bias[row, unit] = h - less
            layers.down_weight[row, scratch[axis], unit] = sign
        for before in range(axis):  # what is being cleared at the same time counts no more
            there = fibres.same[now, before] | (turn > 1)
            layers.up_weight[row[there], hidden - 1, scratch[before]] = -1.0

    def leave(self) -> None:
        """The first features of scratch become exactly 0."""
        layers, hidden = self.layers, self.wiring.hidden
        for place, feature in enumerate(self.wiring.scratch[: self.wiring.leave]):
            for unit, sign in ((hidden - 1 - 2 * place, 1.0), (hidden - 2 - 2 * place, -1.0)):
                layers.up_weight[-1, unit, feature] = sign
                layers.down_weight[-1, feature, unit] = -sign
