"""Method "gather", read from its weights: the network *is* the Kuhn interpolant of the table.

Nothing is assumed of the layout of the layers. The argument:

1. The attention layer's scores do not depend on the input, and in every head one token leads by
   more than 745.2, so that all other weights are exactly 0: it is a linear map.
2. Take a Kuhn simplex, and the network at its D+1 corners. If no unit has a positive pre-activation
   at one corner and a negative one at another, then, layer by layer, every unit is affine on the
   whole simplex (its input is, and it is on throughout or off throughout), so the network is affine
   there: it is the interpolant of its values at the corners.
3. At the corners all numbers but the values of f are multiples of δ and all weights whole numbers,
   with sums below 2^53 δ: float64 adds them without error, in any order, so signs are exact.

So it is enough to run the network at the nodes. The last layer, which reads the values, is checked
with a margin for rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from math import factorial

import numpy as np
import torch

from anyseq.construct.claim import Claim
from anyseq.construct.verify_terms import Disagreement

_WORK = 2e8  # looks at a corner and unit, at most: some seconds
_LEAD = 746.0  # exp(-745.2) is 0 in float64
_UNIT = 2.0**-53

Weights = dict[str, np.ndarray]


def kuhn_network(
    claim: Claim, weights: Mapping[str, torch.Tensor], table: Mapping[str, torch.Tensor]
) -> tuple[str, dict[str, float]]:
    """What was seen, and a bound for the rounding of one entry."""
    net = {name: tensor.detach().numpy() for name, tensor in weights.items()}
    values = table["values"].numpy()
    _check_order(net["halves"])
    axes, layers = claim.tokens * claim.features, len(net["up_bias"])
    every = (claim.steps + 1) ** axes
    simplices = _simplices(claim, int(_WORK / (layers * net["up_bias"].shape[1] * (axes + 1))))
    if every * net["up_weight"].size <= 10 * _WORK:
        nodes, corners = np.arange(every), _numbers(claim, simplices)
    else:
        nodes, corners = np.unique(_numbers(claim, simplices), return_inverse=True)
    x = _coordinates(nodes, claim.steps + 1, axes) / claim.steps
    states = _first_block(claim, net, x.reshape(-1, claim.tokens, claim.features))
    found = _remaining(claim, net, states, corners.reshape(len(simplices), axes + 1))
    off = np.abs(found - values[nodes]).max()
    if off > 64 * _UNIT * max(1e-300, float(np.abs(values).max())) * claim.tokens:
        node = nodes[int(np.abs(found - values[nodes]).reshape(len(nodes), -1).max(1).argmax())]
        raise Disagreement(f"at node {node} the network is off the table by {off:.3g}")
    total = factorial(axes) * claim.steps**axes
    text = (
        f"affine on {len(simplices):,} of {total:,} simplices, and the table at {len(nodes):,} of "
        f"{every:,} nodes"
    )
    return text, {
        "rounding": _rounding(claim, net["up_weight"].shape[2]),
        "rescale": 0.0,
    }


def _check_order(halves: np.ndarray) -> None:
    layers = np.arange(len(halves))
    if not (halves[0, 0] == 0 and (halves[1:, 0] == -1).all() and (halves[:, 1] == layers).all()):
        raise Disagreement("expected one attention layer, the first, and feed-forward in all")


def _simplices(claim: Claim, most: int) -> np.ndarray:
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
        orders = rng.permuted(np.tile(np.arange(axes), (len(cubes), 1)), axis=1)
    walk = np.cumsum(np.eye(axes, dtype=np.int64)[orders], axis=1)
    return np.asarray(cubes[:, None] + np.concatenate([0 * walk[:, :1], walk], axis=1))


def _coordinates(numbers: np.ndarray, per_axis: int, axes: int) -> np.ndarray:
    return np.stack([numbers // per_axis ** (axes - 1 - i) % per_axis for i in range(axes)], axis=1)


def _numbers(claim: Claim, corners: np.ndarray) -> np.ndarray:
    """The rows of nodes in the table."""
    axes = corners.shape[-1]
    return np.asarray(corners @ [(claim.steps + 1) ** (axes - 1 - i) for i in range(axes)])


def _first_block(claim: Claim, net: Weights, x: np.ndarray) -> np.ndarray:
    """(nodes, tokens, width): every token's vector after the block with attention."""
    width, features = net["up_weight"].shape[2], claim.features
    state = np.zeros((*x.shape[:2], width))
    state[..., :features] = x
    state += net["position"]
    if net["q_weight"].any() or net["k_weight"][0, :, :features].any():
        raise Disagreement("attention: its scores depend on the input")
    heads = claim.tokens
    size = len(net["q_bias"][0]) // heads
    key = _exact(net["position"], net["k_weight"][0], 0.0, 1).reshape(claim.tokens, heads, size)
    score = np.einsum("hs,jhs->hj", net["q_bias"][0].reshape(heads, size), key)
    winner = score.argmax(1)
    others = np.sort(score, axis=1)[:, :-1]
    if others.size and float((score.max(1)[:, None] - others).min()) < _LEAD:
        raise Disagreement("attention: in some head no token leads by enough")
    value = _exact(state, net["v_weight"][0], 0.0, claim.steps)
    value = value.reshape(len(x), claim.tokens, heads, size)
    chosen = value[:, winner, np.arange(heads)].reshape(len(x), 1, heads * size)
    state += _exact(chosen, net["o_weight"][0], 0.0, claim.steps)
    # inputs lie in [0, 1]: a unit that reads an input alone is affine there if it does not change
    # sign, which the corners of every simplex show together with those of the other layers
    pre = _exact(state, net["up_weight"][0], net["up_bias"][0], claim.steps)
    if len(x) > 1 and ((pre > 0).any((0, 1)) & (pre < 0).any((0, 1))).any():
        raise Disagreement("feed-forward layer 0: a unit changes sign")
    hidden = np.maximum(pre, 0.0)
    state += _exact(hidden, net["down_weight"][0], net["down_bias"][0], claim.steps)
    return state


def _remaining(claim: Claim, net: Weights, states: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """(nodes, tokens, out_features): the output, after a look at the signs of all units.

    Tokens differ in their own features only, which no layer but the last may read.
    """
    own = (states != states[:, :1]).any((0, 1)) | (net["position"] != net["position"][0]).any(0)
    middle = slice(1, -1)
    down, bias = net["down_weight"][middle], net["down_bias"][middle]
    real = (_not_small_whole(down)).any((0, 2)) | _not_small_whole(bias).any(0)
    written = real | down.any((0, 2)) | bias.any(0)
    if net["up_weight"][middle][:, :, own | real].any() or (own & written).any():
        raise Disagreement("a layer before the last reads or writes what it must not")
    for name, part in (("up_weight", ~real), ("down_weight", ~real), ("up_bias", slice(None))):
        tensor = net[name][middle]
        kept = tensor[:, part] if name == "down_weight" else tensor[..., part]
        if _not_small_whole(kept).any():
            raise Disagreement(f"{name}: a weight that interpolates is not a small whole number")
    state = states[:, 0].copy()
    if (state * claim.steps % 1).any():
        raise Disagreement("at a node, a number is no multiple of δ")
    for layer in range(1, len(net["up_bias"]) - 1):
        # whole multiples of multiples of δ are such again: below 2^53 δ nothing rounds
        up, down = net["up_weight"][layer], net["down_weight"][layer]
        if np.abs(state[:, ~real]).max(initial=1.0) * np.abs(up).sum() > 2.0**50 / claim.steps:
            raise Disagreement(f"feed-forward layer {layer}: a sum too large to be exact")
        pre = state @ up.T + net["up_bias"][layer]
        _keeps_signs(pre, corners, 0.0, layer)
        state += np.maximum(pre, 0.0) @ down.T + net["down_bias"][layer]
    state = np.where(own, states, state[:, None])
    weight, shift = net["up_weight"][-1], net["up_bias"][-1]
    pre = state @ weight.T + shift
    slack = 64 * _UNIT * float((np.abs(state) @ np.abs(weight).T + np.abs(shift)).max())
    for token in range(claim.tokens):
        _keeps_signs(pre[:, token], corners, slack, len(net["up_bias"]) - 1)
    out = state + np.maximum(pre, 0.0) @ net["down_weight"][-1].T + net["down_bias"][-1]
    return np.asarray(out[..., : claim.out_features])


def _not_small_whole(weight: np.ndarray) -> np.ndarray:
    return np.asarray((weight != np.round(weight)) | (np.abs(weight) > 2.0**20))


def _keeps_signs(pre: np.ndarray, corners: np.ndarray, slack: float, layer: int) -> None:
    above, below = pre > slack, pre < -slack
    both = above.any(0) & below.any(0)  # only these units need a closer look
    above, below = above[:, both], below[:, both]
    if (_somewhere(above, corners) & _somewhere(below, corners)).any():
        raise Disagreement(f"feed-forward layer {layer}: a unit changes sign within a simplex")


def _somewhere(holds: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """(simplices, units): whether it holds at some corner."""
    found = holds[corners[:, 0]]
    for corner in range(1, corners.shape[1]):
        found |= holds[corners[:, corner]]
    return np.asarray(found)


def _exact(x: np.ndarray, weight: np.ndarray, shift: np.ndarray | float, steps: int) -> np.ndarray:
    """x W^T + shift, without rounding error: x holds multiples of 1/steps, W whole numbers."""
    if (weight != np.round(weight)).any() or (np.asarray(shift) != np.round(shift)).any():
        raise Disagreement("a weight that routes or interpolates is not a whole number")
    if (x * steps != np.round(x * steps)).any():
        raise Disagreement("at a node, a number is no multiple of δ")
    reach = np.abs(x).max(initial=0.0) * np.abs(weight).sum(1).max(initial=0.0)
    if (reach + np.abs(shift).max(initial=0.0)) * steps >= 2.0**53:
        raise Disagreement("a sum is too large for float64 to be exact")
    return np.asarray(x @ weight.T + shift)


def _rounding(claim: Claim, width: int) -> float:
    """What float64 may add to one entry between the nodes, in blocks or look-up.

    A tournament of D numbers has R = ⌈log2 D⌉ rounds and 2(D-1) - ⌊D/2⌋ ReLUs. Pre-activations sum
    width+1 products and a bias of sizes up to (D + ReLUs + 2)m together, each round may triple what
    came before; of the two sums and one product that make a hat, and the 3^D hats that can be on,
    each adds its error, to the own output and, if f is at its largest, to those of other tokens.
    """
    axes = claim.tokens * claim.features
    rounds, relus = (axes - 1).bit_length(), 2 * (axes - 1) - axes // 2
    form = (width + 2) * (axes + relus + 2) * claim.steps * _UNIT
    hat = 6.0 * 3.0**rounds * form + 4 * _UNIT
    return max(claim.bound, 2.0**-960) * (claim.tokens * 3.0**axes * hat + 8 * _UNIT)
