"""Interpolator: piecewise-linear interpolation on the Kuhn triangulation, as ReLU layers.

Nodes g in {0, ..., m}^D, m = 1/δ, with y = m·x. The hat of node g is

    hat_g = ReLU(1 - ReLU(max_i (y_i - g_i)) - ReLU(-min_i (y_i - g_i))),

1 at g, 0 at all other nodes, linear on every Kuhn simplex (a cube cut by the order of its
coordinates); so Σ_g hat_g f(g) is the interpolant. At most D+1 hats are not 0 at any x.

Nodes on one diagonal, g = h + c·(1, ..., 1), share their extremes: max_i (y_i - g_i) = M - c and
min_i (y_i - g_i) = N - c with M, N those of h. So for every diagonal h (with min_i h_i = 0)

    a tournament (⌈log2 D⌉ layers) finds M and N;
    then each layer deals with `chunk` nodes of the diagonal in two ways:
      it puts s_c = ReLU(M - c) + ReLU(c - N) into node features, for the next nodes,
      it adds ReLU(1 - s_c) f(g) to the values, and clears s_c - ReLU(s_c) = 0, for those before;
    the last layers do the second only, and clear the tournament's scratch in the same way.

A node whose hat is 0 adds an exact 0: its ReLU is off. (h has length m+1 - max_i h_i, and there are
(m+1)^D - m^D diagonals.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from anyseq.construct.gadgets.blank import blank_feed_forward
from anyseq.construct.gadgets.tournament import tournament
from anyseq.construct.lattice import lattice, strides
from anyseq.nn import Layers


@dataclass(frozen=True)
class Wiring:
    """Where the interpolator reads and writes, and how large its layers are.

    hidden: 4·chunk or more, and enough for a round of the tournament.
    """

    axes: int
    steps: int
    chunk: int
    hidden: int
    width: int
    slots_at: int
    values_at: int
    scratch_at: int
    nodes_at: int


def interpolator_layers(wiring: Wiring) -> int:
    """How many layers `interpolate` has.

    The diagonals h with largest entry t, of length m+1-t, number (t+1)^D - 2t^D + (t-1)^D for
    t >= 1 (all, less those that miss 0, less those that miss t, plus those that miss both).
    """
    axes, steps = wiring.axes, wiring.steps
    around = len(tournament(axes).rounds) + _last_layers(wiring)
    if axes == 1:  # one diagonal, however long
        return around + -(-(steps + 1) // wiring.chunk)
    top = np.arange(1, steps + 1, dtype=np.int64)
    count = np.append((top + 1) ** axes - 2 * top**axes + (top - 1) ** axes, 1)
    length = np.append(steps + 1 - top, steps + 1)
    return int((count * (around + -(-length // wiring.chunk))).sum())


def _last_layers(wiring: Wiring) -> int:
    """Layers that add the last nodes of a diagonal and clear the scratch."""
    return -(-(2 * wiring.chunk + tournament(wiring.axes).scratch) // wiring.hidden)


def interpolate(values: torch.Tensor, wiring: Wiring) -> Layers:
    """Add Σ_g hat_g(slots) values[g] to the value features; values ((m+1)^D, V).

    A layer has room for 4·chunk ReLUs: hats and clearing of the nodes before, then s_c of the next.
    """
    axes, chunk = wiring.axes, wiring.chunk
    plan = tournament(axes)
    rounds = len(plan.rounds)
    nodes = lattice(wiring.steps + 1, axes)
    starts = nodes[nodes.amin(1) == 0]
    length = wiring.steps + 1 - starts.amax(1)
    chunks = (length + chunk - 1) // chunk
    size = rounds + chunks + _last_layers(wiring)
    first = size.cumsum(0) - size

    layers = blank_feed_forward(int(size.sum()), wiring.hidden, wiring.width)
    slots = slice(wiring.slots_at, wiring.slots_at + axes)
    scratch = slice(wiring.scratch_at, wiring.scratch_at + plan.scratch)

    def write(
        rows: torch.Tensor, unit: int, form: torch.Tensor, at: torch.Tensor, shift: torch.Tensor
    ) -> None:
        """Unit = form(y - at, scratch) + shift, for the layers `rows`."""
        layers.up_weight[rows, unit, slots] = form[:axes] * wiring.steps
        layers.up_weight[rows, unit, scratch] = form[axes:]
        layers.up_bias[rows, unit] = shift - at.double() @ form[:axes]

    filled = 0
    for level, forms in enumerate(plan.rounds):
        for unit, form in enumerate(forms):
            write(first + level, unit, form, starts, torch.zeros(()))
            layers.down_weight[first + level, wiring.scratch_at + filled, unit] = 1.0
            filled += 1

    # One entry per chunk: its diagonal, its number within it, the layer that fills its features.
    diagonal = torch.arange(len(starts)).repeat_interleave(chunks)
    number = torch.arange(len(diagonal)) - (chunks.cumsum(0) - chunks)[diagonal]
    fills = first[diagonal] + rounds + number
    stride = torch.tensor(strides(wiring.steps + 1, axes))
    value_features = slice(wiring.values_at, wiring.values_at + values.shape[1])
    for slot in range(chunk):
        along = number * chunk + slot
        used = along < length[diagonal]
        rows, start, c = fills[used], starts[diagonal[used]], along[used]
        feature, above, below = (
            wiring.nodes_at + slot,
            2 * chunk + 2 * slot,
            2 * chunk + 2 * slot + 1,
        )
        write(rows, above, plan.highest, start, -c)
        write(rows, below, -plan.lowest, start, c)
        layers.down_weight[rows, feature, above] = 1.0
        layers.down_weight[rows, feature, below] = 1.0
        layers.up_weight[rows + 1, slot, feature] = -1.0
        layers.up_bias[rows + 1, slot] = 1.0
        layers.down_weight[rows + 1, value_features, slot] = values[(start + c[:, None]) @ stride]
        layers.up_weight[rows + 1, chunk + slot, feature] = 1.0
        layers.down_weight[rows + 1, feature, chunk + slot] = -1.0
    for spare in range(plan.scratch):
        later, unit = divmod(2 * chunk + spare, wiring.hidden)
        rows = first + rounds + chunks + later
        layers.up_weight[rows, unit, wiring.scratch_at + spare] = 1.0
        layers.down_weight[rows, wiring.scratch_at + spare, unit] = -1.0
    return Layers(feedforward=layers)
