"""Method "gather" in one wide layer, read from its weights: the last half *is* the table's ridges.

1. The state of every token before the last half is an affine function of x. That is sampled: it is
   found at the corners 0, e_1, ..., e_D of the cube, and compared at other inputs.
2. With it every unit of the last half is ReLU(κ·x - t) in each token. A unit that is below 0 on the
   whole cube adds nothing, one that is above adds something affine, and all others must be kinks of
   the table's ridges, with their changes of slope; what is affine must agree as well. A unit that
   is a little above 0, or below, and counts as if it were not, costs as much, times its weight.
3. The ridges must be those of the kernel, for the values at the nodes: amplitudes are summed again,
   in another order and by another formula for the kernel.

What is found to differ counts as rounding, and must be within what is claimed for that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch

from anyseq.construct.verifiers.claim import Claim
from anyseq.construct.verifiers.verification import fresh
from anyseq.construct.verifiers.verify_front import Weights
from anyseq.construct.verifiers.verify_terms import Disagreement, changes_fit
from anyseq.nn import Stack

_UNIT = 2.0**-53
_NEAR = 2.0**-20  # what differs by less may be rounding; how much it is counts then
_RANDOM = 64  # inputs of a sample, besides corners
Table = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class States:
    """The state of tokens before the last half: start (tokens, width) + slope (tokens, width, D) x.
    off: (tokens, width), how far from that they were seen. text: what was found."""

    start: np.ndarray
    slope: np.ndarray
    off: np.ndarray
    text: str


def sampled_states(claim: Claim, network: Stack, net: Weights) -> States:
    """Run everything but the last half."""
    halves, axes = net["halves"], claim.tokens * claim.features
    last = int(np.nonzero((halves >= 0).any(1))[0].max())
    if halves[last].min() < 0:
        raise Disagreement("expected a last block of attention and one wide layer")
    rng = fresh()
    cube = np.array(list(product((0.0, 1.0), repeat=axes))[:_RANDOM])
    corners = np.concatenate([np.zeros((1, axes)), np.eye(axes)])
    inputs = np.concatenate([corners, cube, rng.random((_RANDOM, axes))])
    batch = torch.from_numpy(inputs.reshape(len(inputs), claim.tokens, claim.features))
    with torch.no_grad():
        layer, state = next(found for found in network.trace(batch) if found[0] == last)
    seen = state[:, int(network.shape.bos) :].numpy()
    start = seen[0]
    slope = np.moveaxis(seen[1 : axes + 1] - start, 0, -1)
    off = np.abs(seen - start - np.einsum("twd,bd->btw", slope, inputs)).max(0)
    if not off.max() <= _NEAR:
        raise Disagreement(f"before the last half of layer {layer} tokens are not affine in x")
    text = (
        f"SAMPLED, not proved: {last + 1} layers, run at {len(inputs)} inputs, leave tokens affine "
        "in x"
    )
    return States(start, slope, off, text)


def ridges_network(
    claim: Claim, net: Weights, table: Table, states: States
) -> tuple[str, dict[str, float]]:
    """What was found; and of one entry, the rounding, the amplitudes, and the degree."""
    shapes = {name: tensor.numpy() for name, tensor in table.items()}
    degree = _degree(claim, shapes)
    moved, amplitude = _ridges_of_kernel(claim, shapes, degree)
    tokens = [_token(claim, net, shapes, states, token, degree) for token in range(claim.tokens)]
    rounding, kinks = float(np.max([off for off, _ in tokens])), sum(count for _, count in tokens)
    text = (
        f"the last half has the {kinks:,} kinks of {len(shapes['low']):,} ridges (read from the "
        "weights), and these are the kernel's, for the values of the table"
    )
    return text, {"rounding": rounding + moved, "amplitude": amplitude, "degree": degree}


def ridges_error(claim: Claim, table: Table, measured: Mapping[str, float]) -> dict[str, float]:
    """The kernel's error and that of the ridges, of one entry, from the constants claimed."""
    values, degree = table["values"].numpy(), int(measured["degree"])
    axes, nodes = claim.tokens * claim.features, degree + 1
    if float(np.abs(values).max()) > claim.bound * (1 + 2.0**-40):
        raise Disagreement(f"the table holds more than |f| <= {claim.bound:.6g}")
    half = math.pi / (2 * degree + 4)
    second = (3 - 4 * math.cos(2 * half) + _rho(degree, 2)) / 8
    variance = 4 * math.sin(half) ** 2 + (math.pi**2 - 4) * second
    deviation = math.sqrt(variance) / math.pi
    if claim.modulus is not None:
        omega = dict(claim.modulus)
        far = min(deviation * math.sqrt(axes), 1.0)
        nearest = min((h for h in omega if h >= far * (1 - 1e-12)), default=None)
        if nearest is None:
            raise Disagreement("the modulus is not recorded where it is needed")
        kernel = 2 * omega[nearest]
    elif claim.lipschitz is not None:
        count = claim.tokens if claim.per_feature is not None else axes
        kernel = claim.lipschitz * deviation * math.sqrt(count)
    else:
        raise Disagreement("no constant is given that bounds the error of the kernel")
    grid = values.reshape(*[nodes] * axes, -1)
    changes_fit(claim, grid, 1 / nodes, 1e-9 * float(np.abs(values).max()))
    return {"kernel": kernel, "ridges": (math.pi / claim.steps) ** 2 / 8 * measured["amplitude"]}


def _degree(claim: Claim, table: Weights) -> int:
    axes, count = claim.tokens * claim.features, len(table["values"])
    nodes = round(float(count ** (1 / axes)))
    if nodes**axes != count or nodes < 2:
        raise Disagreement(f"{count} values do not form a grid of {axes} axes")
    return nodes - 1


def _rho(degree: int, k: int) -> float:
    """ρ_k of the kernel of Fejér and Korovkin, in closed form."""
    if k > degree:
        return 0.0
    angle, left = math.pi / (degree + 2), degree - k + 2
    upper, lower = (left + 1) * math.sin((k + 1) * angle), (left - 1) * math.sin((k - 1) * angle)
    return (upper - lower) / (2 * (degree + 2) * math.sin(angle))


def _ridges_of_kernel(claim: Claim, table: Weights, degree: int) -> tuple[float, float]:
    """How far all ridges of one entry together are from those of the kernel, and Σ_(k≠0) |a_k|."""
    axes, nodes = claim.tokens * claim.features, degree + 1
    a = table["values"].reshape(*[nodes] * axes, -1)
    v, scale = np.arange(nodes), np.array([_rho(degree, k) * (1 + (k > 0)) for k in range(nodes)])
    cosines = np.cos(np.pi * np.outer(v, 2 * v + 1) / (2 * nodes)) * scale[:, None] / nodes
    for axis in reversed(range(axes)):
        a = np.moveaxis(np.tensordot(a, cosines, axes=(axis, 1)), -1, axis)
    entries = a.shape[-1]
    flat = a.reshape(-1, entries)
    knots = table["knots"].reshape(-1, entries)
    way, pieces, first = table["directions"], table["pieces"], table["first"]
    _normal(way, degree)
    most = (degree // np.abs(way).max(1)).astype(np.int64)
    if (table["rate"] != claim.steps * most).any() or (
        table["low"] != way.clip(max=0).sum(1)
    ).any():
        raise Disagreement("knots do not lie where the degree and the steps put them")
    if (pieces != table["rate"] * np.abs(way).sum(1)).any():
        raise Disagreement("ridges have other numbers of pieces than their lengths say")
    if (first != np.cumsum(pieces + 1) - pieces - 1).any() or len(knots) != (pieces + 1).sum():
        raise Disagreement("knots are not in order")
    row = np.repeat(np.arange(len(way)), pieces + 1)
    u = table["low"][row] + (np.arange(len(row)) - first[row]) / table["rate"][row]
    stride = nodes ** np.arange(axes)[::-1]
    phi, share = np.zeros_like(knots), 2.0 ** (1 - (way != 0).sum(1))
    found = np.zeros(len(flat))
    for g in range(1, degree + 1):
        has = most >= g
        at = ((np.abs(way[has]) * g) @ stride).astype(np.int64)
        amplitude = np.zeros((len(way), entries))
        amplitude[has] = flat[at] * share[has, None]
        np.add.at(found, at, share[has])
        phi += np.cos(np.pi * g * u)[:, None] * amplitude[row]
    if (found[1:] != 1).any():  # shares are powers of two, and their sums exact
        raise Disagreement("not every cosine of the kernel is among the ridges, once")
    total = np.abs(flat[1:]).sum(0)
    apart = np.maximum.reduceat(np.abs(knots - phi), first, axis=0).sum(0)
    apart += np.abs(table["constant"].reshape(-1) - flat[0])
    size = max(1e-300, float(np.abs(table["values"]).max()))
    if not apart.max() <= _NEAR * size:
        raise Disagreement(f"ridges are off those of the kernel by {apart.max():.3g}")
    # cosines of large angles, and sums, are no better here than there
    return float(apart.max()), float(total.max())


def _normal(way: np.ndarray, degree: int) -> None:
    """Whole numbers without common factor, none twice and none the opposite of another.

    Then all multiples are different cosines. A product of cosines along r axes is the mean of
    2^(r-1) such, and they are all there if their shares add up to 1.
    """
    if not len(way) or (way != np.round(way)).any() or (np.abs(way) > degree).any():
        raise Disagreement(f"directions are not whole numbers from -{degree} to {degree}")
    leading = np.take_along_axis(way, (way != 0).argmax(1)[:, None], axis=1)
    if (leading <= 0).any():
        raise Disagreement("a direction does not begin with a positive entry")
    if (np.gcd.reduce(way.astype(np.int64), axis=1) != 1).any():
        raise Disagreement("a direction has a common factor")
    if len(np.unique(way, axis=0)) != len(way):
        raise Disagreement("a direction is there twice")


def _token(
    claim: Claim, net: Weights, table: Weights, states: States, token: int, degree: int
) -> tuple[float, int]:
    """How far one entry of one token may be off the table's ridges, and how many kinks it has."""
    up, bias = net["up_weight"][-1], net["up_bias"][-1]
    down, outputs = net["down_weight"][-1], claim.out_features
    slope, start = states.slope[token], states.start[token]
    way, shift, weight = up @ slope, up @ start + bias, down[:outputs].T
    top, bottom = shift + way.clip(min=0).sum(1), shift + way.clip(max=0).sum(1)
    kink = weight.any(1) & (bottom < -_NEAR) & (top > _NEAR)
    on = weight.any(1) & ~kink & (top + bottom > 0)
    change, moved = _changes(table, way[kink], -shift[kink], weight[kink], degree)
    rate = np.repeat(table["rate"], table["pieces"] + 1)[:, None]
    knots = table["knots"][:, token]
    wanted = np.zeros_like(change)
    wanted[1:-1] = (knots[2:] - knots[1:-1]) * rate[1:-1] - (knots[1:-1] - knots[:-2]) * rate[1:-1]
    ends = np.concatenate([table["first"], table["first"] + table["pieces"]])
    wanted[ends] = 0.0
    length = np.repeat(np.abs(table["directions"]).sum(1), table["pieces"] + 1)[:, None]
    off = (np.abs(change - wanted) * length).sum(0) + moved
    # what is affine: in the units, in the state that they are added to, and in the table
    rise = (knots[table["first"] + 1] - knots[table["first"]]) * table["rate"][:, None]
    linear = slope[:outputs] + weight[on].T @ way[on] - rise.T @ table["directions"]
    fixed = start[:outputs] + weight[on].T @ shift[on] + net["down_bias"][-1][:outputs]
    fixed = fixed - table["constant"][token]
    fixed -= (knots[table["first"]] - rise * table["low"][:, None]).sum(0)
    off = off + np.abs(linear).sum(1) + np.abs(fixed)
    size = max(1e-300, float(np.abs(table["values"]).max()))
    if not off.max() <= _NEAR * (1 + size):
        raise Disagreement(f"token {token + 1} adds up other ridges, off by {off.max():.3g}")
    holds = np.abs(start) + np.abs(slope).sum(1)
    once = (up.shape[1] + 4) * _UNIT * (np.abs(up) @ holds + np.abs(bias))
    once += np.abs(up) @ states.off[token]
    live = kink | on
    once[~live] = (once + top)[~live].clip(min=0.0)
    once[on] += (-bottom[on]).clip(min=0.0)
    added = ((live | (once > 0)).sum() + 8) * _UNIT * np.where(live, top, once)
    return float((off + np.abs(weight).T @ (once + added)).max()), int(kink.sum())


def _changes(
    table: Weights, way: np.ndarray, at: np.ndarray, weight: np.ndarray, degree: int
) -> tuple[np.ndarray, np.ndarray]:
    """(knots, out): the changes of slope that units ReLU(way·x - at) make at each knot; and what it
    costs that they are not exactly there."""
    whole = np.round(way)
    base = (2 * degree + 1) ** np.arange(way.shape[1])[::-1]
    codes, code = (table["directions"] + degree) @ base, (whole + degree) @ base
    order = np.argsort(codes)
    ridge = order[np.searchsorted(codes, code, sorter=order).clip(max=len(codes) - 1)]
    if (codes[ridge] != code).any() or np.abs(way - whole).max(initial=0.0) > _NEAR:
        raise Disagreement("a unit of the last half has no direction of the table")
    place = (at - table["low"][ridge]) * table["rate"][ridge]
    knot = np.round(place)
    if ((knot <= 0) | (knot >= table["pieces"][ridge]) | (np.abs(place - knot) > _NEAR)).any():
        raise Disagreement("a unit of the last half bends where the table has no knot")
    change = np.zeros(table["knots"].shape[::2])
    np.add.at(change, table["first"][ridge] + knot.astype(np.int64), weight)
    apart = np.abs(way - whole).sum(1) + np.abs(place - knot) / table["rate"][ridge]
    return change, np.abs(weight).T @ apart
