"""Method "gather", read from its weights: the network *is* the Kuhn interpolant of the table.

Nothing is assumed of the layout of the layers that interpolate. The argument goes on from where
tokens hold their slots (`anyseq.construct.verify_front`):

1. Take a Kuhn simplex, and the network at its D+1 corners. If no unit has a positive pre-activation
   at one corner and a negative one at another, then, layer by layer, every unit is affine on the
   whole simplex (its input is, and it is on throughout or off throughout), so the network is affine
   there: it is the interpolant of its values at the corners.
2. At the corners all numbers but the values of f are multiples of δ and all weights whole numbers,
   with sums below 2^53 δ: float64 adds them without error, in any order, so signs are exact.

So it is enough to run the network at the nodes. The last layer, which reads the values, is checked
with a margin for rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from math import factorial

import numpy as np

from anyseq.construct.claim import Claim
from anyseq.construct.verify_front import Front, Layout, keeps_signs
from anyseq.construct.verify_terms import Disagreement
from anyseq.nn import Stack

_WORK = 2e8  # looks at a corner and unit, at most: some seconds
_UNIT = 2.0**-53

Weights = dict[str, np.ndarray]


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
        """All, or as many as can be looked at; half of those in `boxes` (see `anyseq.construct.
        fused_adaptive`), if there are any, as many in small ones as in large ones."""
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
    values: np.ndarray,
    grid: Grid,
    front: Front,
    levels: int = 1,
) -> tuple[str, dict[str, float]]:
    """What was seen, and a bound for the rounding of one entry. values (nodes, tokens,
    out_features): what the table says at the nodes of the grid. levels: the sizes of hats."""
    nodes = grid.nodes
    found = _remaining(claim, net, Layout.of(claim, network), front, grid.corners)
    apart = np.abs(found - values).reshape(len(nodes), -1).max(1)
    if apart.max() > _allowed(claim, values, levels):
        node = nodes[int(apart.argmax())]
        raise Disagreement(f"at node {node} the network is off the table by {apart.max():.3g}")
    part = "SAMPLED, not proved: " if len(grid.corners) < grid.total else ""
    text = (
        f"{part}affine on {len(grid.corners):,} of {grid.total:,} simplices, and the table at "
        f"{len(nodes):,} of {grid.every:,} nodes (read from the weights, from the slots on)"
    )
    return text, {"rounding": _rounding(claim, network, front.off, levels), "rescale": 0.0}


def _allowed(claim: Claim, values: np.ndarray, levels: int) -> float:
    """What rounding may do at a node, where few hats are on, all of them exact."""
    largest = max(1e-300, float(np.abs(values).max()))
    return 64 * _UNIT * levels**2 * largest * claim.tokens


def _simplices(claim: Claim, most: int, boxes: np.ndarray | None) -> np.ndarray:
    """(S, D+1, D) whole numbers: the corners of all Kuhn simplices, or of `most` at random."""
    axes, steps = claim.tokens * claim.features, claim.steps
    total = factorial(axes) * steps**axes
    if total <= most:
        cubes = _coordinates(np.arange(steps**axes), steps, axes)
        orders = np.array(list(permutations(range(axes))))
        cubes, orders = np.repeat(cubes, len(orders), 0), np.tile(orders, (len(cubes), 1))
    else:
        rng = np.random.default_rng(0)
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
    claim: Claim, net: Weights, layout: Layout, front: Front, corners: np.ndarray
) -> np.ndarray:
    """(nodes, tokens, out_features): the output, after a look at the signs of all units.

    Outputs and places are the token's own, and no layer but the last may read or write them.
    """
    halves = net["halves"][front.layers :]
    rows = halves[halves[:, 1] >= 0, 1].tolist()
    if (halves[:, 0] >= 0).any() or rows != list(range(rows[0], len(net["up_bias"]))):
        raise Disagreement("expected nothing but feed-forward layers once slots are filled")
    middle = slice(rows[0], -1)
    down, bias = net["down_weight"][middle], net["down_bias"][middle]
    own = np.arange(down.shape[1]) < layout.slots_at
    real = (_not_small_whole(down)).any((0, 2)) | _not_small_whole(bias).any(0)
    written = real | down.any((0, 2)) | bias.any(0)
    if net["up_weight"][middle][:, :, own | real].any() or (own & written).any():
        raise Disagreement("a layer before the last reads or writes what it must not")
    for name in ("up_weight", "up_bias"):
        if _not_small_whole(net[name][middle]).any():
            raise Disagreement(f"{name}: a weight that interpolates is not a small whole number")
    state = front.states
    if (state * claim.steps % 1).any():
        raise Disagreement("at a node, a number is no multiple of δ")
    alike = not (state[:, :, ~own] != state[:, :1, ~own]).any()
    state = state[:, :1].copy() if alike else state.copy()
    for layer in rows[:-1]:
        # whole multiples of multiples of δ are such again: below 2^53 δ nothing rounds
        up, down = net["up_weight"][layer], net["down_weight"][layer]
        if np.abs(state[..., ~real]).max(initial=1.0) * np.abs(up).sum() > 2.0**50 / claim.steps:
            raise Disagreement(f"feed-forward layer {layer}: a sum too large to be exact")
        pre = state @ up.T + net["up_bias"][layer]
        for token in range(pre.shape[1]):
            keeps_signs(pre[:, token], corners, 0.0, layer)
        state += np.maximum(pre, 0.0) @ down.T + net["down_bias"][layer]
    state = np.where(own, front.states, state)
    weight, shift = net["up_weight"][-1], net["up_bias"][-1]
    pre = state @ weight.T + shift
    slack = 64 * _UNIT * float((np.abs(state) @ np.abs(weight).T + np.abs(shift)).max())
    for token in range(claim.tokens):
        keeps_signs(pre[:, token], corners, slack, rows[-1])
    out = state + np.maximum(pre, 0.0) @ net["down_weight"][-1].T + net["down_bias"][-1]
    return np.asarray(out[..., : claim.out_features])


def _not_small_whole(weight: np.ndarray) -> np.ndarray:
    return np.asarray((weight != np.round(weight)) | (np.abs(weight) > 2.0**20))


def _rounding(claim: Claim, network: Stack, off: float, k: int) -> float:
    """What float64 may add to one entry between the nodes, in blocks or look-up.

    A tournament of D numbers has R = ⌈log2 D⌉ rounds and 2(D-1) - ⌊D/2⌋ ReLUs. Pre-activations sum
    width+1 products and a bias of sizes up to (D + ReLUs + 2)m together, each round may triple what
    came before, and so does s_c; it is added to what is being cleared, in sums of hidden+2 numbers
    of sizes up to 9m together. Of the two sums and one product that make a hat, and the 3^D hats
    that can be on, none adds more than 4u; the selector lets through what is off in the others'
    outputs. Slots that are off move a function that rises by at most 2 in a step along each axis.
    With k levels of hats, what they are off doubles from level to level, with values up to 2, and
    sums reach 2k; both the look-up and the values it made sum k(D+1) products, weights off by 3u.
    """
    axes, shape = claim.tokens * claim.features, network.shape
    rounds, relus = (axes - 1).bit_length(), 2 * (axes - 1) - axes // 2
    form = (shape.width + 2) * (axes + relus + 2) * claim.steps * _UNIT
    hat = 6.0 * 3.0**rounds * form + (shape.hidden + 2) * 9 * claim.steps * _UNIT
    if k == 1:
        hats = 3.0**axes * (hat + 4 * _UNIT)
    else:
        sums = 3.0**axes * (4 * k + 4) * k + 4 * k * (k * (axes + 1) + 6)
        hats = 4 * 3.0**axes * hat + sums * _UNIT
    moved = 2 * axes * claim.steps * off
    return max(claim.bound, 2.0**-960) * (claim.tokens * hats + 8 * _UNIT + moved)
