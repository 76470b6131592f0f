"""A network whose last half, one wide layer, *is* the table's ridges, Σ_r φ_r(κ_r·x).

1. The state of every token before the last half is an affine function of x (`anyseq.verify.forms`).
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

import numpy as np

from anyseq.verify.constants import changes_fit
from anyseq.verify.facts import Facts
from anyseq.verify.floats import UNIT
from anyseq.verify.forms import NEAR, Forms, Front
from anyseq.verify.terms import Found, spread, table_fits
from anyseq.verify.verdict import Disagreement, Weights


def ridges_network(facts: Facts, net: Weights, table: Weights, before: Front) -> Found:
    """The degree of the kernel is read from the table."""
    if before.row != len(net["up_bias"]) - 1:
        raise Disagreement("before the last half tokens are not affine in x")
    axes, values = facts.axes, table["values"]
    nodes = round(float(len(values) ** (1 / axes)))
    if nodes**axes != len(values) or nodes < 2:
        raise Disagreement(f"{len(values)} values do not form a grid of {axes} axes")
    moved, amplitude = _ridges_of_kernel(facts, table, nodes - 1)
    tokens = [
        _token(facts, net, table, before.tokens, token, nodes - 1) for token in range(facts.tokens)
    ]
    rounding = float(np.max([off for off, _ in tokens])) + moved

    def error() -> dict[tuple[str, str], float]:
        table_fits(facts, values)
        grid = values.reshape(*[nodes] * axes, -1)
        changes_fit(facts, grid, 1 / nodes, 1e-9 * float(np.abs(values).max()))
        terms = {
            "kernel": _kernel(facts, nodes - 1),
            "ridges": (math.pi / facts.steps) ** 2 / 8 * amplitude,
            "rounding": rounding,
        }
        return {(name, "cube"): value * spread(facts) for name, value in terms.items()}

    text = (
        f"the last half has the {sum(count for _, count in tokens):,} kinks of "
        f"{len(table['low']):,} ridges (read from the weights), and these are the kernel's, for "
        "the values of the table"
    )
    return Found(text, error, rounding)


def _kernel(facts: Facts, degree: int) -> float:
    """The kernel's error, of one entry, from the constants claimed."""
    half = math.pi / (2 * degree + 4)
    second = (3 - 4 * math.cos(2 * half) + _rho(degree, 2)) / 8
    variance = 4 * math.sin(half) ** 2 + (math.pi**2 - 4) * second
    deviation = math.sqrt(variance) / math.pi
    if facts.modulus is not None:
        far = min(deviation * math.sqrt(facts.axes), 1.0)
        reached = [w for h, w in sorted(facts.modulus) if h >= far * (1 - 1e-12)]
        if not reached:
            raise Disagreement("the modulus is not recorded where it is needed")
        return 2 * reached[0]
    if facts.lipschitz is None:
        raise Disagreement("no constant is given that bounds the error of the kernel")
    count = facts.tokens if facts.per_feature is not None else facts.axes
    return facts.lipschitz * deviation * math.sqrt(count)


def _rho(degree: int, k: int) -> float:
    """ρ_k of the kernel of Fejér and Korovkin, in closed form."""
    if k > degree:
        return 0.0
    angle, left = math.pi / (degree + 2), degree - k + 2
    upper, lower = (left + 1) * math.sin((k + 1) * angle), (left - 1) * math.sin((k - 1) * angle)
    return (upper - lower) / (2 * (degree + 2) * math.sin(angle))


def _ridges_of_kernel(facts: Facts, table: Weights, degree: int) -> tuple[float, float]:
    """How far all ridges of one entry together are from those of the kernel, and Σ_(k≠0) |a_k|."""
    axes, nodes = facts.axes, degree + 1
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
    if (table["rate"] != facts.steps * most).any() or (
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
    if not apart.max() <= NEAR * size:
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
    if (leading <= 0).any() or (np.gcd.reduce(way.astype(np.int64), axis=1) != 1).any():
        raise Disagreement("a direction begins with a negative entry, or has a common factor")
    if len(np.unique(way, axis=0)) != len(way):
        raise Disagreement("a direction is there twice")


def _token(
    facts: Facts, net: Weights, table: Weights, before: Forms, token: int, degree: int
) -> tuple[float, int]:
    """How far one entry of one token may be off the table's ridges, and how many kinks it has."""
    up, bias = net["up_weight"][-1], net["up_bias"][-1]
    down, outputs = net["down_weight"][-1], facts.out_features
    start, slope = before.form[token, :, 0], before.form[token, :, 1:]
    way, shift, weight = up @ slope, up @ start + bias, down[:outputs].T
    top, bottom = shift + way.clip(min=0).sum(1), shift + way.clip(max=0).sum(1)
    kink = weight.any(1) & (bottom < -NEAR) & (top > NEAR)
    on = weight.any(1) & ~kink & (top + bottom > 0)
    change, moved = _changes(table, way[kink], -shift[kink], weight[kink], degree)
    rate = np.repeat(table["rate"], table["pieces"] + 1)[:, None]
    knots = table["knots"][:, token]
    wanted = np.zeros_like(change)
    wanted[1:-1] = (knots[2:] - knots[1:-1]) * rate[1:-1] - (knots[1:-1] - knots[:-2]) * rate[1:-1]
    wanted[np.concatenate([table["first"], table["first"] + table["pieces"]])] = 0.0
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
    if not off.max() <= NEAR * (1 + size):
        raise Disagreement(f"token {token + 1} adds up other ridges, off by {off.max():.3g}")
    holds = np.abs(start) + np.abs(slope).sum(1)
    once = (up.shape[1] + 4) * UNIT * (np.abs(up) @ holds + np.abs(bias))
    once += np.abs(up) @ before.off[token]
    live = kink | on
    once[~live] = (once + top)[~live].clip(min=0.0)
    once[on] += (-bottom[on]).clip(min=0.0)
    added = ((live | (once > 0)).sum() + 8) * UNIT * np.where(live, top, once)
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
    if (codes[ridge] != code).any() or np.abs(way - whole).max(initial=0.0) > NEAR:
        raise Disagreement("a unit of the last half has no direction of the table")
    place = (at - table["low"][ridge]) * table["rate"][ridge]
    knot = np.round(place)
    if ((knot <= 0) | (knot >= table["pieces"][ridge]) | (np.abs(place - knot) > NEAR)).any():
        raise Disagreement("a unit of the last half bends where the table has no knot")
    change = np.zeros(table["knots"].shape[::2])
    np.add.at(change, table["first"][ridge] + knot.astype(np.int64), weight)
    apart = np.abs(way - whole).sum(1) + np.abs(place - knot) / table["rate"][ridge]
    return change, np.abs(weight).T @ apart
