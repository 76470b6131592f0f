"""The terms of a claim against those derived again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from anyseq.verify.facts import Facts
from anyseq.verify.verdict import Disagreement

MARGIN = 1 + 1e-9  # float64 against float64, by different formulas

Terms = Mapping[tuple[str, str], float]


class Mean(Protocol):
    """What a network computes that blends values of the table."""

    @property
    def hard(self) -> np.ndarray:
        """Entries of x where it is not one of those values."""

    def exact(self, x: np.ndarray) -> Iterable[list[Any]]:
        """What it is at x (tokens, features), in fractions or balls: (tokens, out_features)."""


@dataclass(frozen=True)
class Found:
    """What was found of a network: text; error: derives its terms, after a check that the values
    of the table are possible; off: what an entry may be off the table; exceptional: the measure of
    the inputs without a pointwise bound; mean: the function, unless it is looked up."""

    text: str
    error: Callable[[], Terms]
    off: float
    exceptional: float = 0.0
    mean: Mean | None = None


def spread(facts: Facts) -> float:
    """What the error of every entry is multiplied by."""
    entries = facts.tokens * facts.out_features
    return float(entries ** (1 / facts.p)) if facts.norm == "lp" else 1.0


def terms_hold(facts: Facts, derive: Callable[[], Terms]) -> str:
    """No term derived may exceed the one claimed, nor their sum `upper`."""
    _check_numbers(facts)
    derived = derive()
    claimed = {(name, on): value for name, on, value in facts.terms}
    if claimed.keys() != derived.keys() or len(claimed) != len(facts.terms):
        raise Disagreement(f"terms {sorted(claimed)}, expected {sorted(derived)}")
    for key, value in derived.items():
        if not value <= claimed[key] * MARGIN:
            raise Disagreement(f"{key[0]}: {claimed[key]:.9g} claimed, {value:.9g} derived")
    upper = _together(facts, claimed)
    if abs(upper - facts.upper) > 1e-9 * upper:
        raise Disagreement(f"upper: {facts.upper:.9g} claimed, its terms make {upper:.9g}")
    return f"|f - T| <= {_together(facts, derived):.6g} derived again, {facts.upper:.6g} claimed"


def measure_holds(facts: Facts, derived: float) -> str:
    """The measure of the inputs without a pointwise bound is the one derived again."""
    derived = min(1.0, derived)
    if not abs(facts.exceptional - derived) <= 1e-9 * derived:
        raise Disagreement(f"measure {facts.exceptional:.9g} claimed, {derived:.9g} derived")
    return f"inputs of measure {derived:.3g}, derived again" if derived else "none"


def table_fits(facts: Facts, values: np.ndarray, off: float = 0.0) -> None:
    """|values| <= bound, but for rounding."""
    if not (largest := largest_of(values)) <= facts.bound * (1 + 2.0**-40) + off:
        raise Disagreement(
            f"the table holds {largest:.6g}, but |f| <= {facts.bound:.6g} is claimed"
        )


def largest_of(values: np.ndarray) -> float:
    """Of all |values| that are numbers."""
    return float(np.fmax.reduce(np.abs(values), axis=None, initial=0.0))


def _check_numbers(facts: Facts) -> None:
    numbers = [facts.bound, facts.upper, *(value for _, _, value in facts.terms)]
    numbers += [known for known in (facts.lipschitz, facts.curvature) if known is not None]
    numbers += [
        *(facts.per_feature or ()),
        *(part for pair in facts.modulus or () for part in pair),
    ]
    if not facts.terms or not all(math.isfinite(number) and number >= 0 for number in numbers):
        raise Disagreement("no terms, or a number of the claim is negative or not finite")
    if facts.per_feature is not None:
        total = math.fsum(facts.per_feature)
        if len(facts.per_feature) != facts.features or facts.lipschitz is None:
            raise Disagreement("constants per feature: one is missing, or their sum is")
        if not abs(facts.lipschitz - total) <= 1e-9 * total:
            raise Disagreement("lipschitz is not the sum of the constants per feature")
    rises = [w for _, w in sorted(facts.modulus or ())]
    if any(after * MARGIN < before for before, after in pairwise(rises)):
        raise Disagreement("the modulus falls")
    if not facts.by_order and facts.kind != "equivariant" and facts.tokens > 1:
        raise Disagreement("values for one order of the tokens say nothing about the others")
    exponent = 1 <= facts.p < math.inf and (facts.norm != "mean" or facts.p == 1)
    if facts.norm not in ("sup", "lp", "mean") or not exponent:
        raise Disagreement(f"norm {facts.norm!r} with p = {facts.p:g}")
    if facts.modulus is not None and facts.lipschitz is not None:
        raise Disagreement("a modulus beside a Lipschitz constant: it is unclear which one holds")


def _together(facts: Facts, terms: Terms) -> float:
    parts = {on: sum(v for (_, o), v in terms.items() if o == on) for _, on in terms}
    most = max(parts.values())
    if facts.norm == "sup":
        return most
    return most and most * sum((v / most) ** facts.p for v in parts.values()) ** (1 / facts.p)
