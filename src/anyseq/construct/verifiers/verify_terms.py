"""The error of a claim, derived again: by other formulas where there are some, in exact fractions
or with a margin where there are none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import combinations, pairwise, product

import numpy as np
import torch

from anyseq.construct.verifiers.claim import Claim

_MARGIN = 1 + 1e-9  # float64 against float64, by different formulas


class Disagreement(Exception):
    """What was found differs from what is claimed."""


class Skipped(Exception):
    """Something could not be checked; the text says why."""


def terms_hold(
    claim: Claim, table: Mapping[str, torch.Tensor], measured: Mapping[str, float]
) -> str:
    """Derive every term again; none may exceed the one claimed, nor their sum `upper`.

    table: its values, and as "known" those of f, if they are not all: NaN elsewhere.
    measured: what only the network says: "rounding" of one entry, and for cells "ramps" and
        "repeats", the measures of the exceptional sets, "alike", the share of tokens that get the
        value of others, and "reach", the largest |T|; or the "interpolation" of an adaptive grid,
        or "kernel" and "ridges" of one wide layer, where values and constants were checked with it;
        or the "blending" of a memory, or what the "cells" of several grids cost.
    """
    _check_numbers(claim)
    if not measured.keys() & {"interpolation", "kernel"}:
        values = table["values"].numpy()
        largest = largest_of(values)
        if largest > claim.bound * (1 + 2.0**-40) + measured["rounding"]:
            raise Disagreement(
                f"the table holds {largest:.6g}, but |f| <= {claim.bound:.6g} is claimed"
            )
        if not by_multisets(claim):
            known = table["known"].numpy() if "known" in table else values
            _values_fit_constants(claim, known, 2 * measured["rounding"])
    entries = claim.tokens * claim.out_features
    factor = entries ** (1 / claim.p) if claim.norm == "lp" else 1.0
    if "kernel" in measured:
        names = ("kernel", "ridges", "rounding")
        derived = {(name, "cube"): measured[name] * factor for name in names}
    elif found := measured.keys() & {"blending", "cells"}:
        derived = {(name, "cells"): measured[name] * factor for name in (*found, "rounding")}
    elif claim.method == "gather":
        interpolation = measured.get("interpolation")
        interpolation = _interpolation(claim) if interpolation is None else interpolation
        derived = {
            ("interpolation", "cells"): interpolation * factor,
            ("rounding", "cells"): measured["rounding"] * factor,
        }
    else:
        if claim.norm == "sup":
            raise Disagreement("on ramps nothing is proved in sup norm")
        reach = max(measured["reach"], claim.bound) + claim.bound
        derived = {
            ("cells", "cells"): _off_centre(claim) * factor,
            ("ramps", "ramps"): measured["ramps"] ** (1 / claim.p) * factor * reach,
        }
        if claim.method == "yun":  # the other rounds nothing
            derived["rounding", "cells"] = measured["rounding"] * factor
            if not claim.positions:
                share = measured["repeats"] ** (1 / claim.p)
                derived["repeats", "repeats"] = share * factor * claim.bound
        elif measured["alike"]:
            share = measured["alike"] ** (1 / claim.p)
            derived["alike", "alike"] = share * factor * reach
    claimed = {(name, on): value for name, on, value in claim.terms}
    if claimed.keys() != derived.keys() or len(claimed) != len(claim.terms):
        raise Disagreement(f"terms {sorted(claimed)}, expected {sorted(derived)}")
    for key, value in derived.items():
        if not value <= claimed[key] * _MARGIN:
            raise Disagreement(f"{key[0]}: {claimed[key]:.9g} claimed, {value:.9g} derived")
    _check_sum(claim)
    return f"|f - T| <= {_together(claim, derived):.6g} derived again, {claim.upper:.6g} claimed"


def exceptions_hold(claim: Claim, measured: Mapping[str, float]) -> str:
    """The measure of the inputs without a pointwise bound is the one derived again.

    measured: "ramps", "repeats" and "lost", the measures of inputs on ramps, with repeated cells,
        and in cells that some token confuses with others; networks without such have none.
    """
    derived = min(1.0, sum(measured.get(name, 0.0) for name in ("ramps", "repeats", "lost")))
    if not abs(claim.exceptional - derived) <= 1e-9 * derived:
        raise Disagreement(f"measure {claim.exceptional:.9g} claimed, {derived:.9g} derived")
    return f"inputs of measure {derived:.3g}, derived again" if derived else "none"


def by_multisets(claim: Claim) -> bool:
    """Whether a table has one row for all orders of some cells: it holds for equivariant f only.

    (Dense attention is all that "boltzmann" needs for that, "yun" has no positions, "sum" no use
    for any.)"""
    unordered = claim.method == "yun" or (claim.method == "boltzmann" and claim.dense)
    return claim.method == "sum" or (unordered and not claim.positions)


def _check_numbers(claim: Claim) -> None:
    numbers = [claim.bound, claim.upper, *(value for _, _, value in claim.terms)]
    numbers += [known for known in (claim.lipschitz, claim.curvature) if known is not None]
    numbers += [
        *(claim.per_feature or ()),
        *(part for pair in claim.modulus or () for part in pair),
    ]
    if not claim.terms or not all(math.isfinite(number) and number >= 0 for number in numbers):
        raise Disagreement("no terms, or a number of the claim is negative or not finite")
    if claim.per_feature is not None:
        total = math.fsum(claim.per_feature)
        if len(claim.per_feature) != claim.features or claim.lipschitz is None:
            raise Disagreement("constants per feature: one is missing, or their sum is")
        if not abs(claim.lipschitz - total) <= 1e-9 * total:
            raise Disagreement("lipschitz is not the sum of the constants per feature")
    rises = [w for _, w in sorted(claim.modulus or ())]
    if any(after * _MARGIN < before for before, after in pairwise(rises)):
        raise Disagreement("the modulus falls")
    if by_multisets(claim) and claim.kind != "equivariant" and claim.tokens > 1:
        raise Disagreement("values for one order of the tokens say nothing about the others")
    exponent = 1 <= claim.p < math.inf and (claim.norm != "mean" or claim.p == 1)
    if claim.norm not in ("sup", "lp", "mean") or not exponent:
        raise Disagreement(f"norm {claim.norm!r} with p = {claim.p:g}")
    if claim.modulus is not None and claim.lipschitz is not None:
        raise Disagreement("a modulus beside a Lipschitz constant: it is unclear which one holds")


def _check_sum(claim: Claim) -> None:
    upper = _together(claim, {(name, on): value for name, on, value in claim.terms})
    if abs(upper - claim.upper) > 1e-9 * upper:
        raise Disagreement(f"upper: {claim.upper:.9g} claimed, its terms make {upper:.9g}")


def _together(claim: Claim, terms: Mapping[tuple[str, str], float]) -> float:
    parts = {on: sum(v for (_, o), v in terms.items() if o == on) for _, on in terms}
    if claim.norm == "sup":
        return max(parts.values())
    most = max(parts.values())
    return most and most * sum((v / most) ** claim.p for v in parts.values()) ** (1 / claim.p)


def _interpolation(claim: Claim) -> float:
    """The best bound that the constants give, for one entry."""
    step, axes = Fraction(1, claim.steps), claim.tokens * claim.features
    found = []
    if claim.modulus is not None:
        # E ω(δ max(U, 1-U)), the outer ends of 64 shells of equal weight
        omega = dict(claim.modulus)
        ends = [float(step * (64 + shell) / 128) for shell in range(1, 65)]
        found.append(sum(_known(omega, h) for h in ends) / 64)
    elif claim.per_feature is not None:
        total = sum(map(Fraction, claim.per_feature))
        found.append(float(total * step * _share(claim.tokens)))
    elif claim.lipschitz is not None:
        found.append(float(Fraction(claim.lipschitz) * step * _share(axes)))
    if claim.curvature is not None:
        bend = Fraction(claim.curvature) * step**2 * axes
        found.append(float(bend / 8))
        if claim.norm != "sup":
            # ∫ (y(1-y))^p dy over [0, 1] = B(p+1, p+1)
            log_beta = 2 * math.lgamma(claim.p + 1) - math.lgamma(2 * claim.p + 2)
            mean = math.exp(log_beta / claim.p)
            found.append(float(bend / 2) * mean)
    if not found:
        raise Disagreement("no constant is given that bounds the error of interpolation")
    return min(found)


def _share(axes: int) -> Fraction:
    """max Σ_k w_k max(1 - y_(k), y_(k+1)) is 3/4 - 1/(2(D+1)) at the most: for equal pieces, D odd;
    see `anyseq.construct.request.smooth`."""
    return Fraction(3, 4) - Fraction(1, 2 * (axes + 1))


def _off_centre(claim: Claim) -> float:
    """f against the centre of its cell, in one entry, in L^p."""
    half, p = 0.5 / claim.steps, claim.p
    axes = claim.tokens * claim.features
    if claim.modulus is not None:
        omega = dict(claim.modulus)
        ends = np.arange(1, 65) / 64
        reached = np.array([_known(omega, float(half * end)) for end in ends])
        top = reached.max()
        weight = np.diff(ends**axes, prepend=0.0)
        return float(top and top * (weight @ (reached / top) ** p) ** (1 / p))
    axes = claim.tokens if claim.per_feature is not None else axes
    return lipschitz(claim) * half * float((axes / (axes + p)) ** (1 / p))


def lipschitz(claim: Claim) -> float:
    """L, which bounds the error within a cell."""
    if claim.lipschitz is None:
        raise Disagreement("no constant is given that bounds the error within a cell")
    return claim.lipschitz


def _known(omega: Mapping[float, float], distance: float) -> float:
    if distance not in omega:
        raise Disagreement(f"the modulus is not recorded at {distance:g}")
    return omega[distance]


def allowed_change(claim: Claim, distance: float, features: Iterable[int]) -> float:
    """What f may change if these features move by at most `distance`: that of as many moves as it
    takes, where a modulus is recorded for shorter ones only."""
    if claim.per_feature is not None:
        return distance * math.fsum(claim.per_feature[feature] for feature in features)
    if claim.lipschitz is not None:
        return distance * claim.lipschitz
    moves = ((math.ceil(distance / h * (1 - 1e-12)), w) for h, w in claim.modulus or () if h > 0)
    return min((count * w for count, w in moves), default=math.inf)


def changes_fit(claim: Claim, grid: np.ndarray, step: float, noise: float) -> None:
    """Values at nodes one step apart, in the maximum over all axes, or over those of one feature,
    must not contradict the constants: between those further apart lies a chain of such. grid: an
    axis for every entry of x, token by token, and one for the entries of f."""
    axes = range(claim.tokens * claim.features)
    parts = [range(claim.features), *([k] for k in range(claim.features))]
    for features in parts if claim.per_feature is not None else parts[:1]:
        high = grid
        for axis in (axis for axis in axes if axis % claim.features in features):
            place = np.arange(grid.shape[axis])
            for move in (1, -1):
                near = (place + move).clip(0, place[-1])
                high = np.fmax(high, np.take(high, near, axis))
        apart, allowed = largest_of(high - grid), allowed_change(claim, step, features)
        if apart > allowed + noise:
            raise Disagreement(
                f"values at neighbouring nodes differ by {apart:.6g}; the constants allow "
                f"{allowed:.6g}"
            )


def _values_fit_constants(claim: Claim, values: np.ndarray, off: float) -> None:
    """Values at nodes (or cells' centres, δ apart too) must not contradict the constants."""
    axes, features = claim.tokens * claim.features, claim.features
    per_axis = claim.steps + (claim.method == "gather")
    grid = values.reshape(*[per_axis] * axes, -1)
    if claim.method in ("yun", "boltzmann"):  # which number the cells of a token from its last axis
        order = [
            token * features + k for token in range(claim.tokens) for k in range(features)[::-1]
        ]
        grid = grid.transpose(*order, axes)
    noise = 1e-9 * largest_of(values) + off
    changes_fit(claim, grid, 1 / claim.steps, noise)
    if claim.curvature is not None and per_axis > 2:
        for direction in directions(axes):
            bend = _bend(grid, direction)
            allowed = claim.curvature * sum(map(abs, direction)) / claim.steps**2
            if bend > allowed + 4 * noise:
                raise Disagreement(
                    f"values at neighbouring nodes bend by {bend:.6g}; "
                    f"curvature={claim.curvature:g} allows {allowed:.6g}"
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


def largest_of(values: np.ndarray) -> float:
    """Of all |values| that are numbers."""
    return float(np.fmax.reduce(np.abs(values), axis=None, initial=0.0))
