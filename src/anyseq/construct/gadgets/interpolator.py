"""Interpolator: piecewise-linear interpolation on the Kuhn triangulation, one ReLU a node.

Nodes g in {0, ..., m}^D, m = 1/δ, with y = m·x. With ∇f the mixed difference (along every axis, f
less its value one node before, 0 before the first), f(v) = Σ_g ∇f(g) [v >= g]: at a node v it adds
up again what lies below. Interpolation is linear in f, and the interpolant of [v >= g] is

    min(1, min_i ReLU(y_i - g_i + 1)),

which is 1 and 0 at the right nodes and linear where a cube is cut by the order of its coordinates:
there y_i - g_i + 1 either is the smallest throughout or is not, or is beyond 0 or 1 throughout.

Let g = (h, c): c on the last axis, h on the others, which name a *fibre* of m+1 nodes. With

    ν_h = min(1, max_i ReLU(h_i - y_i)),    from 1, not yet reached, to 0, passed,

the minimum is min(1 - ν_h, ReLU(t - c + 1)) = ReLU(t - c + 1) - ReLU(t - c + ν_h), t = y_D, since
0 <= 1 - ν_h <= 1. In the first part there is no h: summed over h, ReLU(t - c + 1) has the weight
A_c = Σ_h ∇f(h, c). For h = 0 ν is 0, so that both parts have the same ReLUs, c one apart, and the
last, ReLU(t - m), is 0. Where nothing is cut off, ReLU(t + 1) = t + 1 and ReLU(t + ν_h) = t + ν_h,
numbers can be put together: those without ν make A_0 + A_1 t. So there are

    the constant A_0, and m ReLUs for h = 0: t, of weight A_1, and ReLU(t - c), A_(c+1) - ∇f(0, c),
    m ReLUs for every other fibre: ReLU(t - c + ν_h), 1 <= c <= m, of weight -∇f(h, c),
    and -∇f(h, 0) ν_h.

ν is a sum of scratch features e_i >= 0 with e_1 + ... + e_i = min(1, max over the first i axes): by
v = e_1 + ... + e_(i-1) <= 1,

    e_i = ReLU(h_i - y_i - v) - ReLU(h_i - y_i - 1),    0 where h_i = 0.

Fibres come in lexicographic order: from one to the next one axis i goes on and all axes after it go
back to 0. So the last layer of a fibre puts e_i in place of what was there, and clears the rest;
after the last fibre all are cleared. What leaves does so by ReLU(e_i + 1) - 1, which is also added
to the values, with what -∇f(h, 0) has added up to since e_i came. In the end the first two leave by
ReLU(e_i) - ReLU(-e_i): these features are exactly 0 then.

At the nodes all numbers but the values are whole. If those are multiples of some 2^k and small
enough (`summable`) then every sum is exact there, in any order.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from anyseq.base import EXACT_BITS, power_of_two_at_least
from anyseq.construct.gadgets.blank import blank_feed_forward
from anyseq.nn import FeedForwardLayers, Layers

_SMALLEST = 2.0**-1000  # far from where halves of it would be lost


@dataclass(frozen=True)
class Wiring:
    """Where the interpolator reads and writes, and how large its layers are.

    cuts: layers per fibre. scratch: `axes` - 1 features. They need not be 0 before the last layer
    of the first fibre has cleared them, by ReLUs that the caller adds. spare: ReLUs of the first
    layer that are left to the caller.
    """

    axes: int
    steps: int
    cuts: int
    hidden: int
    width: int
    slots_at: int
    values_at: int
    scratch: tuple[int, ...]
    spare: int = 0

    @property
    def fibres(self) -> int:
        return int((self.steps + 1) ** (self.axes - 1))

    @property
    def layers(self) -> int:
        """How many layers `interpolate` has."""
        return self.fibres * self.cuts


def units_between(axes: int) -> int:
    """ReLUs that lead from one fibre to the next: one to clear each e_i, two to fill one."""
    return axes + 1 if axes > 1 else 0


def least_hidden(axes: int, steps: int, cuts: int) -> int:
    """ReLUs a layer: the nodes of a fibre and, all in its last layer, those that lead on. With two
    axes or more, axes - 1 may be `spare`."""
    between = units_between(axes)
    return max(-(-(steps + between) // cuts), between, 1)


def mixed_differences(values: torch.Tensor, axes: int) -> torch.Tensor:
    """∇f for values ((m+1)^D, V), of the same shape."""
    per_axis = round(len(values) ** (1 / axes))
    grid = values.reshape(*[per_axis] * axes, -1)
    for axis in range(axes):
        grid = torch.diff(grid, dim=axis, prepend=torch.zeros_like(grid.narrow(axis, 0, 1)))
    return grid.reshape(len(values), -1)


def summable(values: torch.Tensor, axes: int) -> torch.Tensor:
    """Values ((m+1)^D, V), each moved to the nearest multiple of some 2^k, such that whatever the
    interpolator adds at a node is below 2^53 of these, and so exact.

    A ReLU is at most m+1 there, and the weights of nodes add up to at most 2 Σ|∇f|, f being summed
    twice; to Σ|∇f| for each e_i that leaves, by a ReLU of at most 2, and the same again as biases.
    That is to be 2^51 of the 2^k; the rest is for what moving f does to ∇f, at most 2^D/2 each, and
    for numbers up to 4 max|f| that are there from the start.
    """
    per_axis = round(len(values) ** (1 / axes))
    most = (2 * per_axis + 3 * axes) * float(mixed_differences(values, axes).abs().sum(0).max())
    unit = power_of_two_at_least(max(most, _SMALLEST)) * 2.0 ** (2 - EXACT_BITS)
    return (values / unit).round() * unit


def interpolate(values: torch.Tensor, wiring: Wiring) -> Layers:
    """Add the interpolant of the values ((m+1)^D, V) at the slots to the value features."""
    axes, steps, hidden, fibres = wiring.axes, wiring.steps, wiring.hidden, wiring.fibres
    cuts, scratch = wiring.cuts, list(wiring.scratch)
    layers = blank_feed_forward(wiring.layers, hidden, wiring.width)
    into = slice(wiring.values_at, wiring.values_at + values.shape[1])

    share = mixed_differences(values, axes).view(fibres, steps + 1, -1)
    total = share.sum(0)
    first, others = slice(wiring.spare, wiring.spare + steps), slice(0, steps)
    weight = torch.zeros(fibres, cuts * hidden, values.shape[1], dtype=torch.float64)
    weight[0, first] = total[1:] - torch.cat([0 * total[:1], share[0, 1:-1]])
    weight[1:, others] = -share[1:, 1:]
    layers.down_weight[:, into] = weight.view(wiring.layers, hidden, -1).transpose(1, 2)
    layers.down_bias[0, into] = total[0]

    up_weight = layers.up_weight.view(fibres, cuts * hidden, wiring.width)
    up_bias = layers.up_bias.view(fibres, cuts * hidden)
    c = torch.arange(steps, dtype=torch.float64)
    up_weight[0, first, wiring.slots_at + axes - 1] = steps
    up_bias[0, first] = -c
    up_weight[1:, others, wiring.slots_at + axes - 1] = steps
    up_weight[1:, others, scratch] = 1.0
    up_bias[1:, others] = -c - 1

    after = torch.arange(1, fibres + 1)  # the number of the next fibre
    for axis, feature in enumerate(scratch):
        stride = (steps + 1) ** (axes - 2 - axis)
        moves = after[after % stride == 0]
        last, entry = moves * cuts - 1, moves // stride % (steps + 1)
        added = share[:, 0].view(len(moves), stride, -1).sum(1)
        leave, ends = hidden - 3 - axis, axis < 2  # the last two ReLUs fill
        _leaves(layers, last[1 : len(last) - ends], leave, feature, into, added[1:])
        if ends:
            for unit, sign in ((leave, 1.0), (hidden - 1 - axis, -1.0)):
                layers.up_weight[-1, unit, feature] = sign
                layers.down_weight[-1, feature, unit] = -sign
                layers.down_weight[-1, into, unit] = -sign * added[-1]
        last, entry = last[entry > 0], entry[entry > 0].double()
        for unit, less, sign in ((hidden - 1, 0.0, 1.0), (hidden - 2, 1.0, -1.0)):
            layers.up_weight[last, unit, wiring.slots_at + axis] = -float(steps)
            layers.up_bias[last, unit] = entry - less
            layers.down_weight[last, feature, unit] = sign
        later = last[last >= cuts, None]  # in the first fibre v is 0, scratch need not be
        layers.up_weight[later, hidden - 1, scratch[:axis]] = -1.0
    return Layers(feedforward=layers)


def _leaves(
    layers: FeedForwardLayers,
    rows: torch.Tensor,
    unit: int,
    feature: int,
    into: slice,
    added: torch.Tensor,
) -> None:
    """In these layers a feature is cleared, and -added times what it was goes to the values."""
    layers.up_weight[rows, unit, feature] = 1.0
    layers.up_bias[rows, unit] = 1.0
    layers.down_weight[rows, feature, unit] = -1.0
    layers.down_bias[rows, feature] = 1.0
    layers.down_weight[rows, into, unit] = -added[: len(rows)]
    layers.down_bias[rows, into] += added[: len(rows)]
