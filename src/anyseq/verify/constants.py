"""What the constants of f allow: the error of a grid, and of values the differences and bends.

Distances are in the max norm. Errors are derived by other formulas than those that made the claim
where there are some, in exact fractions or with a margin where there are none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import combinations, product

import numpy as np

from anyseq.verify.facts import Facts
from anyseq.verify.terms import largest_of
from anyseq.verify.verdict import Disagreement


def interpolation(facts: Facts) -> float:
    """The best bound for one entry of f less its interpolant on simplices."""
    step, axes = Fraction(1, facts.steps), facts.axes
    found = []
    if facts.modulus is not None:
        # E ω(δ max(U, 1-U)), the outer ends of 64 shells of equal weight
        ends = [float(step * (64 + shell) / 128) for shell in range(1, 65)]
        found.append(sum(_recorded(facts, h) for h in ends) / 64)
    elif facts.per_feature is not None:
        found.append(float(sum(map(Fraction, facts.per_feature)) * step * share(facts.tokens)))
    elif facts.lipschitz is not None:
        found.append(float(Fraction(facts.lipschitz) * step * share(axes)))
    if facts.curvature is not None:
        bend = Fraction(facts.curvature) * step**2 * axes
        found.append(float(bend / 8))
        if facts.norm != "sup":
            found.append(float(bend / 2) * mean_of_products(facts.p))
    if not found:
        raise Disagreement("no constant is given that bounds the error of interpolation")
    return min(found)


def share(axes: int) -> Fraction:
    """max Σ_k w_k max(1 - y_(k), y_(k+1)), w_k the weights of the corners of a simplex, is
    3/4 - 1/(2(D+1)) at the most: for equal pieces, D odd."""
    return Fraction(3, 4) - Fraction(1, 2 * (axes + 1))


def mean_of_products(p: float) -> float:
    """(∫ (y(1-y))^p dy)^(1/p) over [0, 1]: the integral is B(p+1, p+1)."""
    return math.exp((2 * math.lgamma(p + 1) - math.lgamma(2 * p + 2)) / p)


def off_centre(facts: Facts) -> float:
    """f against the centre of its cell, in one entry, in L^p."""
    half, p, axes = 0.5 / facts.steps, facts.p, facts.axes
    if facts.modulus is not None:
        ends = np.arange(1, 65) / 64
        reached = np.array([_recorded(facts, float(half * end)) for end in ends])
        top = reached.max()
        weight = np.diff(ends**axes, prepend=0.0)
        return float(top and top * (weight @ (reached / top) ** p) ** (1 / p))
    axes = facts.tokens if facts.per_feature is not None else axes
    return lipschitz(facts) * half * float((axes / (axes + p)) ** (1 / p))


def lipschitz(facts: Facts) -> float:
    """L, which bounds the error within a cell."""
    if facts.lipschitz is None:
        raise Disagreement("no constant is given that bounds the error within a cell")
    return facts.lipschitz


def _recorded(facts: Facts, distance: float) -> float:
    """ω there."""
    known = dict(facts.modulus or ())
    if distance not in known:
        raise Disagreement(f"the modulus is not recorded at {distance:g}")
    return known[distance]


def allowed_change(facts: Facts, distance: float, features: Iterable[int]) -> float:
    """What f may change if these features move by at most `distance`: that of as many moves as it
    takes, where a modulus is recorded for shorter ones only."""
    if facts.per_feature is not None:
        return distance * math.fsum(facts.per_feature[feature] for feature in features)
    if facts.lipschitz is not None:
        return distance * facts.lipschitz
    moves = ((math.ceil(distance / h * (1 - 1e-12)), w) for h, w in facts.modulus or () if h > 0)
    return min((count * w for count, w in moves), default=math.inf)


def values_fit(facts: Facts, grid: np.ndarray, off: float) -> None:
    """Values at nodes, or at centres, must not contradict the constants. grid: an axis for every
    entry of x, token by token, and one for the entries of f; NaN where f is not known."""
    noise, per_axis = 1e-9 * largest_of(grid) + off, grid.shape[0]
    changes_fit(facts, grid, 1 / facts.steps, noise)
    if facts.curvature is not None and per_axis > 2:
        for direction in directions(facts.axes):
            bend = _bend(grid, direction)
            allowed = facts.curvature * sum(map(abs, direction)) / facts.steps**2
            if bend > allowed + 4 * noise:
                raise Disagreement(
                    f"values at neighbouring nodes bend by {bend:.6g}; "
                    f"curvature={facts.curvature:g} allows {allowed:.6g}"
                )


def changes_fit(facts: Facts, grid: np.ndarray, step: float, noise: float) -> None:
    """Values at nodes one step apart, in the maximum over all axes, or over those of one feature,
    must not contradict the constants: between those further apart lies a chain of such."""
    parts = [range(facts.features), *([k] for k in range(facts.features))]
    for features in parts if facts.per_feature is not None else parts[:1]:
        high = grid
        for axis in (axis for axis in range(facts.axes) if axis % facts.features in features):
            place = np.arange(grid.shape[axis])
            for move in (1, -1):
                near = (place + move).clip(0, place[-1])
                high = np.fmax(high, np.take(high, near, axis))
        change_fits(facts, largest_of(high - grid), step, features, noise)


def change_fits(
    facts: Facts, apart: float, step: float, features: Iterable[int], noise: float
) -> None:
    """Neighbours may differ by so much."""
    allowed = allowed_change(facts, step, features)
    if apart > allowed + noise:
        raise Disagreement(
            f"values at neighbouring nodes differ by {apart:.6g}; the constants allow {allowed:.6g}"
        )


def directions(axes: int) -> Iterator[tuple[int, ...]]:
    """In which values must not bend too much: all of {-1, 0, 1}^D but for their signs, or, of many
    axes, along one or two of them, or along all."""
    if axes <= 4:
        yield from (way for way in product((-1, 0, 1), repeat=axes) if way > (0,) * axes)
        return
    yield (1,) * axes
    units = np.eye(axes, dtype=int)
    yield from map(tuple, units.tolist())
    for one, other in combinations(units, 2):
        yield from (tuple((one + other).tolist()), tuple((one - other).tolist()))


def _bend(grid: np.ndarray, direction: tuple[int, ...]) -> float:
    """The largest second difference along a direction, except where two entries of x change places
    on the way: kinks are allowed there."""
    per_axis, axes = grid.shape[0], len(direction)
    behind, middle, ahead = (
        grid[
            tuple(
                slice(max(0, -2 * d) + k * d, per_axis - max(0, 2 * d) + k * d) for d in direction
            )
        ]
        for k in range(3)
    )
    bends = np.abs(behind - 2 * middle + ahead)
    start = np.ogrid[tuple(slice(size) for size in bends.shape[:-1])]
    place = [at + max(0, -2 * d) for at, d in zip(start, direction, strict=True)]
    for one, other in combinations(range(axes), 2):
        if turn := 2 * (direction[one] - direction[other]):
            apart = place[one] - place[other]
            bends = np.where((apart * (apart + turn) < 0)[..., None], 0.0, bends)
    return largest_of(bends)
