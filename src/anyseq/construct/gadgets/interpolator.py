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
Σ_h ∇f(h, c). For h = 0 ν is 0, so that both parts have the same ReLUs, c one apart, and the last,
ReLU(t - m), is 0. So every fibre takes m+1 ReLUs, ReLU(t - c + ν_h), the first with c from -1 on.

ν is a sum of scratch features e_i >= 0 with e_1 + ... + e_i = min(1, max over the first i axes): by
v = e_1 + ... + e_(i-1) <= 1,

    e_i = ReLU(h_i - y_i - v) - ReLU(h_i - y_i - 1),    0 where h_i = 0.

Fibres come in lexicographic order: from one to the next one axis i goes on and all axes after it go
back to 0. So the last layer of a fibre puts e_i in place of what was there, which leaves by
ReLU(e_i + 1) - 1, and clears the rest; after the last fibre all are cleared.

At the nodes all numbers but the values are whole. If those are multiples of some 2^k and small
enough (`summable`) then every sum is exact there, in any order.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from anyseq.base import EXACT_BITS, power_of_two_at_least
from anyseq.construct.gadgets.blank import blank_feed_forward
from anyseq.nn import Layers

_SMALLEST = 2.0**-1000  # far from where halves of it would be lost


@dataclass(frozen=True)
class Wiring:
    """Where the interpolator reads and writes, and how large its layers are.

    cuts: layers per fibre. scratch_at: `axes` - 1 features, 0 before and after.
    """

    axes: int
    steps: int
    cuts: int
    hidden: int
    width: int
    slots_at: int
    values_at: int
    scratch_at: int

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
    """ReLUs a layer: the nodes of a fibre and, all in its last layer, those that lead on."""
    between = units_between(axes)
    return max(-(-(steps + 1 + between) // cuts), between)


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

    A ReLU is at most m+1 there, and weights add up to at most 2 Σ|∇f|, f being summed twice. That
    is to be 2^52 of the 2^k; the other half is for what moving f does to ∇f, at most 2^D/2 each.
    """
    per_axis = round(len(values) ** (1 / axes))
    most = 2 * per_axis * float(mixed_differences(values, axes).abs().sum(0).max())
    unit = power_of_two_at_least(max(most, _SMALLEST)) * 2.0 ** (1 - EXACT_BITS)
    return (values / unit).round() * unit


def interpolate(values: torch.Tensor, wiring: Wiring) -> Layers:
    """Add the interpolant of the values ((m+1)^D, V) at the slots to the value features."""
    axes, steps, hidden, fibres = wiring.axes, wiring.steps, wiring.hidden, wiring.fibres
    layers = blank_feed_forward(wiring.layers, hidden, wiring.width)
    scratch_at, per_fibre = wiring.scratch_at, steps + 1

    share = mixed_differences(values, axes).view(fibres, per_fibre, -1)
    weight = torch.zeros(fibres, wiring.cuts * hidden, values.shape[1], dtype=torch.float64)
    weight[:, :per_fibre] = -share
    weight[0, :per_fibre] = share.sum(0)
    weight[0, 1:per_fibre] -= share[0, :-1]
    weight = weight.view(wiring.layers, hidden, -1).transpose(1, 2)
    layers.down_weight[:, wiring.values_at : wiring.values_at + values.shape[1]] = weight

    up_weight = layers.up_weight.view(fibres, wiring.cuts * hidden, wiring.width)[:, :per_fibre]
    up_weight[:, :, wiring.slots_at + axes - 1] = steps
    up_weight[:, :, scratch_at : scratch_at + axes - 1] = 1.0
    up_bias = layers.up_bias.view(fibres, wiring.cuts * hidden)[:, :per_fibre]
    up_bias[:] = -torch.arange(per_fibre, dtype=torch.float64)
    up_bias[0] += 1.0

    after = torch.arange(1, fibres + 1)  # the number of the next fibre
    for axis in range(axes - 1):
        stride, feature = per_fibre ** (axes - 2 - axis), scratch_at + axis
        moves = after[after % stride == 0]
        last, entry, unit = moves * wiring.cuts - 1, moves // stride % per_fibre, hidden - 1 - axis
        layers.up_weight[last, unit, feature] = 1.0
        layers.up_bias[last, unit] = 1.0
        layers.down_weight[last, feature, unit] = -1.0
        layers.down_bias[last, feature] = 1.0
        last, entry = last[entry > 0], entry[entry > 0].double()
        for unit, less, sign in ((hidden - axes, 0.0, 1.0), (hidden - axes - 1, 1.0, -1.0)):
            layers.up_weight[last, unit, wiring.slots_at + axis] = -float(steps)
            layers.up_bias[last, unit] = entry - less
            layers.down_weight[last, feature, unit] = sign
        layers.up_weight[last, hidden - axes, scratch_at:feature] = -1.0
    return Layers(feedforward=layers)
