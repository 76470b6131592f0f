"""What is known about the error: itemised terms, a proved upper side, a seen lower side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import torch

SUP, LP, MEAN = "sup", "lp", "mean"
NORMS = (SUP, LP, MEAN)


def norm_name(norm: str, p: float) -> str:
    """The norm as users write it."""
    return {SUP: "sup norm", LP: f"L^{p:g} norm", MEAN: "mean absolute error"}[norm]


CERTIFIED = "certified"
CERTIFIED_FLOAT64 = "certified-float64"
CONDITIONAL = "conditional"
SAMPLED = "sampled"
STATUS = {
    CERTIFIED: "proved from constants that were given, in exact arithmetic",
    CERTIFIED_FLOAT64: "proved from constants that were given, the rounding of float64 included",
    CONDITIONAL: "not proved: how f varies was estimated from samples",
    SAMPLED: "not proved: the error was measured on random inputs",
}

ROUNDING = "rounding"
"""The name of the term that holds all that float64 adds, in the network and in its fused form."""

# A term is a handful of products and powers, each right to a few units in the last place.
_OUTWARD = 1 + 2.0**-44


@dataclass(frozen=True)
class Term:
    """One source of error.

    value: its size in the given norm.
    on: the part of the domain where it acts; the parts are disjoint.
    why: the reason in one line.
    """

    name: str
    value: float
    on: str
    why: str


def combine(terms: Iterable[Term], norm: str, p: float) -> float:
    """The bound that the terms prove together.

    On one part of the domain errors add. Over disjoint parts the largest counts in sup norm, and
    the p-th powers add in L^p (the mean absolute error has p = 1). It is rounded outward, by more
    than the arithmetic can be off.
    """
    parts: defaultdict[str, float] = defaultdict(float)
    for term in terms:
        parts[term.on] += term.value
    largest = max(parts.values(), default=0.0)
    if norm == SUP or largest == 0.0:
        return largest * _OUTWARD
    # in units of the largest: nothing under- or overflows, whatever p
    total = float(sum((value / largest) ** p for value in parts.values()) ** (1 / p))
    return largest * total * _OUTWARD


@dataclass(frozen=True, eq=False)
class ErrorReport:
    """lower <= distance(f, T) <= upper, in the norm named.

    upper: proved, or None.
    lower: sup norm: the largest error seen; L^p: a lower confidence limit at `level`, from random
        inputs (those on a ramp count as error 0).
    at: the input with the largest error in one entry among all inputs tried, `at_error` that error.
    exceptional: the measure of the inputs where T is no good approximation (0 in sup norm).
    """

    norm: str
    p: float
    upper: float | None
    lower: float
    level: float | None
    at: torch.Tensor
    at_error: float
    exceptional: float
    terms: tuple[Term, ...]
    assumes: tuple[str, ...]


def proved_status(terms: Iterable[Term]) -> str:
    """The level of a proof with these terms."""
    names = [term.name for term in terms]
    return CERTIFIED_FLOAT64 if ROUNDING in names else CERTIFIED
