"""A network that is affine on every Kuhn simplex of a grid: the interpolant of its values at nodes.

The argument goes on from where tokens are affine on the cube (`anyseq.verify.forms`):

1. Take a simplex, and the network at its D+1 corners. If no unit has a positive pre-activation at
   one corner and a negative one at another, then, layer by layer, every unit is affine on the whole
   simplex (its input is, and it is on throughout or off throughout), so the network is affine
   there: it is the interpolant of its values at the corners.
2. At the corners all numbers but the values of f are multiples of a power of two, δ for example,
   and all weights whole numbers, with sums below 2^53 of these: float64 adds them without error, in
   any order, so signs are exact. What goes into the values are whole numbers times multiples of
   some 2^k, with sums below 2^53 2^k.

So it is enough to run the network at the nodes. The last layer reads the values, whose sums round:
by how much its units bend in a simplex is found, and counts as rounding, weight by weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from math import factorial

import numpy as np

from anyseq.verify.drift import Drift
from anyseq.verify.facts import Facts
from anyseq.verify.floats import TINY, UNIT, common_unit, not_small_whole
from anyseq.verify.forms import Front
from anyseq.verify.verdict import Disagreement, Weights, fresh

_WORK = 2e8  # looks at a corner and unit, at most: some seconds


@dataclass(frozen=True)
class Grid:
    """nodes: their rows in the table. x: (nodes, D). corners: (simplices, D+1), numbers of nodes.
    every, total: how many nodes and simplices there are."""

    nodes: np.ndarray
    x: np.ndarray
    corners: np.ndarray
    every: int
    total: int

    @classmethod
    def of(cls, facts: Facts, net: Weights, boxes: np.ndarray | None) -> Grid:
        """All, or as many as can be checked; half of those in `boxes` (lower corners and sides), if
        there are any, as many in small ones as in large ones."""
        axes, per_axis, layers = facts.axes, facts.steps + 1, len(net["up_bias"])
        every = per_axis**axes
        work = layers * net["up_bias"].shape[1] * (axes + 1)
        corners = number(_simplices(facts, int(_WORK / work), boxes), per_axis)
        if every * net["up_weight"].size <= 10 * _WORK:
            nodes = np.arange(every)
        else:
            nodes, corners = np.unique(corners, return_inverse=True)
        x = coordinates(nodes, per_axis, axes) / facts.steps
        total = factorial(axes) * facts.steps**axes
        return cls(nodes, x, corners.reshape(-1, axes + 1), every, total)


def number(places: np.ndarray, per_axis: int) -> np.ndarray:
    """(..., D) coordinates -> (...), the last one fastest."""
    axes = places.shape[-1]
    return np.asarray(places @ [per_axis ** (axes - 1 - axis) for axis in range(axes)])


def coordinates(numbers: np.ndarray, per_axis: int, axes: int) -> np.ndarray:
    """What `number` numbers."""
    return np.stack([numbers // per_axis ** (axes - 1 - i) % per_axis for i in range(axes)], axis=1)


def _simplices(facts: Facts, most: int, boxes: np.ndarray | None) -> np.ndarray:
    """(S, D+1, D) whole numbers: the corners of all Kuhn simplices, or of `most` at random."""
    axes, steps = facts.axes, facts.steps
    if factorial(axes) * steps**axes <= most:
        cubes = coordinates(np.arange(steps**axes), steps, axes)
        orders = np.array(list(permutations(range(axes))))
        cubes, orders = np.repeat(cubes, len(orders), 0), np.tile(orders, (len(cubes), 1))
    else:
        rng = fresh()
        cubes = rng.integers(0, steps, (max(most, 16), axes))
        if boxes is not None:
            picked = rng.choice(boxes, len(cubes) // 2)
            inside = (rng.random((len(picked), axes)) * picked[:, -1:]).astype(np.int64)
            cubes[: len(picked)] = picked[:, :-1] + inside
        orders = rng.permuted(np.tile(np.arange(axes), (len(cubes), 1)), axis=1)
    walk = np.cumsum(np.eye(axes, dtype=np.int64)[orders], axis=1)
    return np.asarray(cubes[:, None] + np.concatenate([0 * walk[:, :1], walk], axis=1))


def interpolates(
    facts: Facts, net: Weights, values: np.ndarray, grid: Grid, before: Front
) -> tuple[str, float]:
    """The network is affine on the simplices of the grid and has these values (nodes, tokens,
    out_features) at its nodes; and how far one entry may be from that in float64."""
    found, off = _remaining(facts, net, before, grid)
    apart = np.abs(found - values).reshape(len(values), -1).max(1)
    if not apart.max() <= 64 * UNIT * max(1e-300, float(np.abs(values).max())) * facts.tokens:
        node = grid.nodes[int(apart.argmax())]
        raise Disagreement(f"at node {node} the network is off the table by {apart.max():.3g}")
    part = "SAMPLED, not proved: " if len(grid.corners) < grid.total else ""
    text = (
        f"{part}affine on {len(grid.corners):,} of {grid.total:,} simplices, and the table at "
        f"{len(grid.nodes):,} of {grid.every:,} nodes (read from the weights)"
    )
    return text, off + float(apart.max())


def _remaining(facts: Facts, net: Weights, before: Front, grid: Grid) -> tuple[np.ndarray, float]:
    """(nodes, tokens, out_features): the output, after a check of the signs of all units; and how
    far one entry may be from what is affine between these, in float64.

    Features that real numbers go into are values; no layer but the last may read them after that.
    """
    middle = slice(before.row, -1)
    downs, biases = net["down_weight"][middle], net["down_bias"][middle]
    turns = not_small_whole(downs).any(2) | not_small_whole(biases)
    real = np.asarray(turns.any(0))
    for name in ("up_weight", "up_bias"):
        if not_small_whole(net[name][middle]).any():
            raise Disagreement(f"{name}: a weight that interpolates is not a small whole number")
    state = before.tokens.at(grid.x)
    step = min(1.0, common_unit(state))
    weighs = np.concatenate([*downs[:, real].transpose(0, 2, 1), biases[:, real]]).T
    unit, summed = min(1.0, common_unit(weighs)), np.abs(state[..., real])
    spoilt, drift = np.zeros_like(real), Drift(real, before.tokens.off.max(0))
    for layer, turn in enumerate(turns, before.row):
        # whole multiples of multiples of a step are such again: below 2^53 steps nothing rounds
        up, down = net["up_weight"][layer], net["down_weight"][layer]
        if up[:, spoilt].any():
            raise Disagreement(f"feed-forward layer {layer}: it reads values")
        most = np.abs(state).reshape(-1, len(real)).max(0) * ~spoilt
        if (np.abs(up) @ most + np.abs(net["up_bias"][layer])).max() > 2.0**52 * step:
            raise Disagreement(f"feed-forward layer {layer}: a sum too large to be exact")
        pre = state @ up.T + net["up_bias"][layer]
        if _bends(pre, grid.corners).any():
            raise Disagreement(f"feed-forward layer {layer}: a unit changes sign within a simplex")
        hidden, shift = np.maximum(pre, 0.0), net["down_bias"][layer]
        if (hidden[..., down[real].any(0)] % 1).any():
            raise Disagreement(
                f"feed-forward layer {layer}: values get numbers that are not whole at nodes"
            )
        summed += hidden @ np.abs(down[real]).T + np.abs(shift[real])
        drift.layer(up, net["up_bias"][layer], down, shift, state, pre)
        state += hidden @ down.T + shift
        spoilt = spoilt | turn
    if summed.max(initial=0.0) > 2.0**53 * unit:
        raise Disagreement("values: a sum is too large for float64 to be exact at the nodes")
    weight, shift = net["up_weight"][-1], net["up_bias"][-1]
    pre = state @ weight.T + shift
    drift.layer(
        weight, shift, net["down_weight"][-1], net["down_bias"][-1], state, pre,
        bent=_bends(pre, grid.corners), rounded=True,
    )  # fmt: skip
    out = state + np.maximum(pre, 0.0) @ net["down_weight"][-1].T + net["down_bias"][-1]
    entries = slice(facts.out_features)
    return np.asarray(out[..., entries]), float(drift.off[entries].max())


def _bends(pre: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """(units,): how far ReLU(pre) may be from affine on a simplex in any token, pre (nodes, tokens,
    units) being affine.

    With p = max pre and q = max(-pre) at its corners: ReLU(pre) and the interpolant of its values
    there both lie between pre and pre + q, and between 0 and p, so they are min(p, q) apart at most
    if both are positive, and equal otherwise.
    """
    found = np.zeros(pre.shape[1:])
    both = (pre > 0).any(0) & (pre < 0).any(0)  # only these need a closer look
    above = below = pre[corners[:, 0]][:, both]
    for corner in range(1, corners.shape[1]):
        here = pre[corners[:, corner]][:, both]
        above, below = np.maximum(above, here), np.minimum(below, here)
    found[both] = np.minimum(above, -below).clip(min=0.0).max(0, initial=0.0)
    return np.asarray(found.max(0))


def table_rounding(facts: Facts, values: np.ndarray) -> float:
    """What float64 may add to one entry of the look-up, and what was done to the table.

    The values at the nodes were moved so that they can be summed, to multiples of 2^-50 (2m+2+3D)
    Σ|∇f| at most; ∇f is f less its value one node before, along every axis in turn.
    """
    axes, steps = facts.axes, facts.steps
    grid = values.reshape(*[steps + 1] * axes, -1)
    for axis in range(axes):
        grid = np.diff(grid, axis=axis, prepend=0.0)
    variation = float(np.abs(grid).reshape(len(values), -1).sum(0).max())
    units = 4 * (2 * steps + 2 + 3 * axes) * variation
    return float((units + (6 * axes + 28) * max(facts.bound, TINY)) * UNIT)
