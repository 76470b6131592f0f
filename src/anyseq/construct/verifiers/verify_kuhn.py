"""Method "gather", read from its weights: the network *is* the Kuhn interpolant of the table.

Nothing is assumed about the layout of the layers that interpolate. The argument goes on from where
tokens hold their slots (`anyseq.construct.verifiers.verify_front`):

1. Take a Kuhn simplex, and the network at its D+1 corners. If no unit has a positive pre-activation
   at one corner and a negative one at another, then, layer by layer, every unit is affine on the
   whole simplex (its input is, and it is on throughout or off throughout), so the network is affine
   there: it is the interpolant of its values at the corners.
2. At the corners all numbers but the values of f are multiples of δ and all weights whole numbers,
   with sums below 2^53 δ: float64 adds them without error, in any order, so signs are exact. What
   goes into the values are whole numbers times multiples of some 2^k, with sums below 2^53 2^k.

So it is enough to run the network at the nodes. The last layer reads the values, whose sums round:
by how much its units bend in a simplex is found, and counts as rounding, weight by weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from math import factorial

import numpy as np
import torch

from anyseq.construct.verifiers.claim import Claim
from anyseq.construct.verifiers.verification import fresh
from anyseq.construct.verifiers.verify_drift import Drift
from anyseq.construct.verifiers.verify_front import Front, Weights, bends, keeps_signs
from anyseq.construct.verifiers.verify_terms import Disagreement
from anyseq.nn import Stack

_WORK = 2e8  # looks at a corner and unit, at most: some seconds
_UNIT = 2.0**-53


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
    def of(cls, claim: Claim, net: Weights, boxes: np.ndarray | None) -> Grid:
        """All, or as many as can be checked; half of those in `boxes` (lower corners and sides), if
        there are any, as many in small ones as in large ones."""
        axes, layers = claim.tokens * claim.features, len(net["up_bias"])
        every = (claim.steps + 1) ** axes
        work = layers * net["up_bias"].shape[1] * (axes + 1)
        simplices = _simplices(claim, int(_WORK / work), boxes)
        if every * net["up_weight"].size <= 10 * _WORK:
            nodes, corners = np.arange(every), _numbers(claim, simplices)
        else:
            nodes, corners = np.unique(_numbers(claim, simplices), return_inverse=True)
        x = _coordinates(nodes, claim.steps + 1, axes) / claim.steps
        total = factorial(axes) * claim.steps**axes
        return cls(nodes, x, corners.reshape(len(simplices), axes + 1), every, total)


def kuhn_network(
    claim: Claim,
    network: Stack,
    net: Weights,
    table: Mapping[str, torch.Tensor],
    grid: Grid,
    front: Front,
) -> tuple[str, dict[str, float]]:
    """What was found, and a bound for the rounding of one entry."""
    values = table["values"].numpy()
    text, off = agrees(claim, net, values[grid.nodes], grid, front)
    rounding = off + _rounding(claim, _variation(claim, values))
    return text, {"rounding": rounding, "rescale": 0.0}


def agrees(
    claim: Claim, net: Weights, values: np.ndarray, grid: Grid, front: Front
) -> tuple[str, float]:
    """The network is affine on the simplices of the grid and has these values (nodes, tokens,
    out_features) at its nodes; and how far one entry may be from that in float64."""
    nodes = grid.nodes
    found, off = _remaining(claim, net, front, grid.corners)
    apart = np.abs(found - values).reshape(len(nodes), -1).max(1)
    if apart.max() > 64 * _UNIT * max(1e-300, float(np.abs(values).max())) * claim.tokens:
        node = nodes[int(apart.argmax())]
        raise Disagreement(f"at node {node} the network is off the table by {apart.max():.3g}")
    part = "SAMPLED, not proved: " if len(grid.corners) < grid.total else ""
    text = (
        f"{part}affine on {len(grid.corners):,} of {grid.total:,} simplices, and the table at "
        f"{len(nodes):,} of {grid.every:,} nodes (read from the weights, from the slots on)"
    )
    return text, off + float(apart.max())


def _simplices(claim: Claim, most: int, boxes: np.ndarray | None) -> np.ndarray:
    """(S, D+1, D) whole numbers: the corners of all Kuhn simplices, or of `most` at random."""
    axes, steps = claim.tokens * claim.features, claim.steps
    total = factorial(axes) * steps**axes
    if total <= most:
        cubes = _coordinates(np.arange(steps**axes), steps, axes)
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


def _coordinates(numbers: np.ndarray, per_axis: int, axes: int) -> np.ndarray:
    return np.stack([numbers // per_axis ** (axes - 1 - i) % per_axis for i in range(axes)], axis=1)


def _numbers(claim: Claim, corners: np.ndarray) -> np.ndarray:
    """The rows of nodes in the table."""
    axes = corners.shape[-1]
    return np.asarray(corners @ [(claim.steps + 1) ** (axes - 1 - i) for i in range(axes)])


def _remaining(
    claim: Claim, net: Weights, front: Front, corners: np.ndarray
) -> tuple[np.ndarray, float]:
    """(nodes, tokens, out_features): the output, after a check of the signs of all units; and how
    far one entry may be from what is affine between these, in float64.

    Features that real numbers go into are values; no layer but the last may read them after that.
    """
    halves = net["halves"][front.layers :]
    rows = halves[halves[:, 1] >= 0, 1].tolist()
    if (halves[:, 0] >= 0).any() or rows != list(range(rows[0], len(net["up_bias"]))):
        raise Disagreement("expected nothing but feed-forward layers once slots are filled")
    middle = slice(rows[0], -1)
    downs, biases = net["down_weight"][middle], net["down_bias"][middle]
    turns = _not_small_whole(downs).any(2) | _not_small_whole(biases)
    real = np.asarray(turns.any(0))
    for name in ("up_weight", "up_bias"):
        if _not_small_whole(net[name][middle]).any():
            raise Disagreement(f"{name}: a weight that interpolates is not a small whole number")
    state = front.states.copy()
    if (state * claim.steps % 1).any():
        raise Disagreement("at a node, a number is not a multiple of δ")
    weighs = np.concatenate([*downs[:, real].transpose(0, 2, 1), biases[:, real]]).T
    unit, summed = min(1.0, _common_unit(weighs)), np.abs(state[..., real])
    varies = (state != state[:1]).any((0, 1))  # slots, the only features that may be off
    spoilt, drift = np.zeros_like(real), Drift(real, front.off * varies)
    for layer, turn in zip(rows[:-1], turns, strict=True):
        # whole multiples of multiples of δ are such again: below 2^53 δ nothing rounds
        up, down = net["up_weight"][layer], net["down_weight"][layer]
        if up[:, spoilt].any():
            raise Disagreement(f"feed-forward layer {layer}: it reads values")
        most = np.abs(state).reshape(-1, len(real)).max(0) * ~spoilt
        if (np.abs(up) @ most + np.abs(net["up_bias"][layer])).max() > 2.0**52 / claim.steps:
            raise Disagreement(f"feed-forward layer {layer}: a sum too large to be exact")
        pre = state @ up.T + net["up_bias"][layer]
        for token in range(pre.shape[1]):
            keeps_signs(pre[:, token], corners, layer)
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
    bent = np.max([bends(pre[:, token], corners) for token in range(claim.tokens)], axis=0)
    drift.layer(
        weight, shift, net["down_weight"][-1], net["down_bias"][-1], state, pre,
        bent=bent, rounded=True,
    )  # fmt: skip
    out = state + np.maximum(pre, 0.0) @ net["down_weight"][-1].T + net["down_bias"][-1]
    entries = slice(claim.out_features)
    return np.asarray(out[..., entries]), float(drift.off[entries].max())


def _common_unit(numbers: np.ndarray) -> float:
    """The largest power of two of which all numbers are multiples."""
    mantissa, exponent = np.frexp(numbers[numbers != 0])
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(float))[1] - 1 + exponent - 53
    return float(np.ldexp(1.0, lowest.min(initial=900)))


def _not_small_whole(weight: np.ndarray) -> np.ndarray:
    return np.asarray((weight != np.round(weight)) | (np.abs(weight) > 2.0**20))


def _variation(claim: Claim, values: np.ndarray) -> float:
    """Σ|∇f| of one entry: ∇f is f less its value one node before, along every axis in turn."""
    axes = claim.tokens * claim.features
    grid = values.reshape(*[claim.steps + 1] * axes, -1)
    for axis in range(axes):
        grid = np.diff(grid, axis=axis, prepend=0.0)
    return float(np.abs(grid).reshape(len(values), -1).sum(0).max())


def _rounding(claim: Claim, variation: float) -> float:
    """What float64 may add to one entry of the look-up, and what was done to the table.

    The values at the nodes were moved so that they can be summed, to multiples of 2^-50 (2m+2+3D)
    Σ|∇f| at most.
    """
    axes, steps = claim.tokens * claim.features, claim.steps
    bound = max(claim.bound, 2.0**-960)
    units = 4 * (2 * steps + 2 + 3 * axes) * variation + (6 * axes + 28) * bound
    return float(units * _UNIT)
