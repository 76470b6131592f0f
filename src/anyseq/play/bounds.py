"""How a formula varies, proved: intervals for its values and bounds for its derivatives.

With x in [0, 1]^n, for each part f of a formula:

    [lower, upper]   holds its values
    slopes_j         |∂f/∂x_j| <= slopes_j wherever it exists
    lipschitz        |f(x) - f(y)| <= L max|x - y|: the gradient's entries add up to at most L
    gradient         the Euclidean length of the gradient
    curvature        the second derivative along any unit vector, wherever no two x are equal;
                     infinite if f may have a kink elsewhere

Sums add them. (ab)'' = a''b + 2a'b' + ab''. φ(a)'' = φ'(a) a'' + φ''(a) a'². The k-th smallest of
several is one of them wherever they differ, so each bound is the largest of theirs, and its kinks
are where two are equal: among entries of x only where two x are equal, which `curvature` allows.
Ends of intervals are rounded outward after each step, and the bounds, sums and products of numbers
>= 0, once at the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from anyseq.play.tree import Tree, Walk

_ULPS = 2.0**-50  # more than a function of the C library rounds
_TINY = 1e-300
_OUTWARD = 1 + 2.0**-30  # more than a few hundred sums and products round
_TANH_BENDS = 4 / (3 * math.sqrt(3))  # the largest |tanh''|
_SIGMOID_BENDS = 1 / (6 * math.sqrt(3))  # the largest |sigmoid''|


@dataclass(frozen=True)
class Constants:
    """What is proved of a formula: each is None where nothing is."""

    lipschitz: float | None
    curvature: float | None

    @property
    def proved(self) -> bool:
        """Whether an error can be proved with them."""
        return self.lipschitz is not None or self.curvature is not None


@dataclass(frozen=True)
class Bound:
    """Bounds for one part of a formula, see above.

    entry: whether it is an entry of x, always the same one while the order of x stays, as in sort
    and max. tie: whether it is the difference of two such, which changes sign at x_i = x_j only.
    """

    lower: float
    upper: float
    slopes: tuple[float, ...]
    lipschitz: float
    gradient: float
    curvature: float
    entry: bool = False
    tie: bool = False

    @property
    def size(self) -> float:
        """The largest |f|."""
        return max(abs(self.lower), abs(self.upper))


def constants_of(tree: Tree, tokens: int) -> Constants:
    """The constants that hold for the outputs of all tokens."""
    x = [_entry(at, tokens) for at in range(tokens)]
    found = [Walk(Bounds(tokens), x, i).number(tree) for i in range(tokens)]
    known = all(math.isfinite(one.size) for one in found)
    lipschitz = max(one.lipschitz for one in found) * _OUTWARD
    curvature = max(one.curvature for one in found) * _OUTWARD
    return Constants(
        lipschitz if known and lipschitz < math.inf else None,
        curvature if known and curvature < math.inf else None,
    )


def _entry(at: int, tokens: int) -> Bound:
    slopes = tuple(float(j == at) for j in range(tokens))
    return Bound(0.0, 1.0, slopes, 1.0, 1.0, 0.0, entry=True)


class Bounds:
    """The numbers of a formula as bounds."""

    def __init__(self, tokens: int) -> None:
        self._flat = (0.0,) * tokens

    def constant(self, value: float) -> Bound:
        return Bound(value, value, self._flat, 0.0, 0.0, 0.0)

    def unary(self, name: str, a: Bound) -> Bound:
        if name in ("abs", "relu"):
            return _bent(name, a)
        lower, upper, first, second = _FUNCTIONS[name](a.lower, a.upper)
        return _composed(a, lower, upper, first, second)

    def power(self, a: Bound, exponent: int) -> Bound:
        if exponent == 0:
            return self.constant(1.0)
        ends = [_raised(a.lower, exponent), _raised(a.upper, exponent)]
        crosses = exponent % 2 == 0 and a.lower < 0 < a.upper
        first = exponent * _raised(a.size, exponent - 1)
        second = exponent * (exponent - 1) * _raised(a.size, max(0, exponent - 2))
        return _composed(a, 0.0 if crosses else min(ends), max(ends), first, second)

    def binary(self, name: str, a: Bound, b: Bound) -> Bound:
        if name == "divide":
            return _product(a, _reciprocal(b))
        if name == "multiply":
            return _product(a, b)
        sign = 1.0 if name == "add" else -1.0
        ends = sorted((sign * b.lower, sign * b.upper))
        made = _made(
            a.lower + ends[0],
            a.upper + ends[1],
            tuple(s + t for s, t in zip(a.slopes, b.slopes, strict=True)),
            a.lipschitz + b.lipschitz,
            a.gradient + b.gradient,
            a.curvature + b.curvature,
        )
        return replace(made, tie=sign < 0 and a.entry and b.entry)

    def sort(self, entries: Sequence[Bound]) -> list[Bound]:
        if len(entries) == 1:
            return list(entries)
        ordered = all(one.entry for one in entries)
        kinks = 0.0 if ordered else math.inf
        alike = _made(
            0.0,
            0.0,
            tuple(max(slopes) for slopes in zip(*(one.slopes for one in entries), strict=True)),
            max(one.lipschitz for one in entries),
            max(one.gradient for one in entries),
            max(kinks, *(one.curvature for one in entries)),
        )
        lower, upper = sorted(e.lower for e in entries), sorted(e.upper for e in entries)
        return [
            replace(alike, lower=low, upper=high, entry=ordered)
            for low, high in zip(lower, upper, strict=True)
        ]


def _made(
    lower: float,
    upper: float,
    slopes: tuple[float, ...],
    lipschitz: float,
    gradient: float,
    curvature: float,
) -> Bound:
    """Rounded outward; what is no number any more (inf - inf) is not known."""
    if math.isnan(lower) or math.isnan(upper):
        lower, upper = -math.inf, math.inf
    slopes = tuple(math.inf if math.isnan(slope) else slope for slope in slopes)
    total, length = math.fsum(slopes), math.hypot(*slopes)
    return Bound(
        lower - abs(lower) * _ULPS - _TINY,
        upper + abs(upper) * _ULPS + _TINY,
        slopes,
        min(_known(lipschitz), _known(total)),
        min(_known(gradient), _known(length)),
        _known(curvature),
    )


def _known(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _raised(value: float, exponent: int) -> float:
    """A power; infinite where Python would raise."""
    return math.prod([value] * exponent)


def _times(a: float, b: float) -> float:
    """0 times what is not bounded is 0: one factor is 0 everywhere."""
    return 0.0 if a == 0 or b == 0 else a * b


def _product(a: Bound, b: Bound) -> Bound:
    ends = [_times(s, t) for s in (a.lower, a.upper) for t in (b.lower, b.upper)]
    return _made(
        min(ends),
        max(ends),
        tuple(
            _times(a.size, t) + _times(b.size, s) for s, t in zip(a.slopes, b.slopes, strict=True)
        ),
        _times(a.size, b.lipschitz) + _times(b.size, a.lipschitz),
        _times(a.size, b.gradient) + _times(b.size, a.gradient),
        _times(a.size, b.curvature)
        + _times(b.size, a.curvature)
        + 2 * _times(a.gradient, b.gradient),
    )


def _composed(a: Bound, lower: float, upper: float, first: float, second: float) -> Bound:
    """φ(a), if |φ'| <= first and |φ''| <= second on the values of a."""
    return _made(
        lower,
        upper,
        tuple(_times(first, slope) for slope in a.slopes),
        _times(first, a.lipschitz),
        _times(first, a.gradient),
        _times(first, a.curvature) + _times(second, _times(a.gradient, a.gradient)),
    )


def _bent(name: str, a: Bound) -> Bound:
    """|a| or max(a, 0), whose kink is at a = 0."""
    if a.lower >= 0:
        return a
    ends = (0.0, a.size) if name == "abs" else (0.0, max(0.0, a.upper))
    if a.upper <= 0:
        ends, flat = (-a.upper, -a.lower) if name == "abs" else (0.0, 0.0), name == "relu"
        return _composed(a, *ends, 0.0 if flat else 1.0, 0.0)
    made = _composed(a, *ends, 1.0, 0.0)
    return made if a.tie else replace(made, curvature=math.inf)


def _reciprocal(b: Bound) -> Bound:
    if b.lower <= 0 <= b.upper:
        return _composed(b, -math.inf, math.inf, math.inf, math.inf)
    least = min(abs(b.lower), abs(b.upper))
    ends = sorted((1 / b.lower, 1 / b.upper))
    return _composed(b, ends[0], ends[1], 1 / least / least, 2 / least / least / least)


Reach = tuple[float, float, float, float]
"""The ends of φ's values, and the largest |φ'| and |φ''|."""


def _hits(lower: float, upper: float, at: float, period: float) -> bool:
    """Whether [lower, upper] has a point at + k·period; near misses count."""
    if not max(abs(lower), abs(upper)) < 1e6:
        return True
    room = 1e-6
    return math.ceil((lower - at) / period - room) <= math.floor((upper - at) / period + room)


def _sin(lower: float, upper: float) -> Reach:
    half = math.pi / 2
    ends = [math.sin(end) if abs(end) < 1e6 else 1.0 for end in (lower, upper)]
    slopes = [abs(math.cos(end)) if abs(end) < 1e6 else 1.0 for end in (lower, upper)]
    low = -1.0 if _hits(lower, upper, -half, 2 * math.pi) else min(ends)
    high = 1.0 if _hits(lower, upper, half, 2 * math.pi) else max(ends)
    steepest = 1.0 if _hits(lower, upper, 0.0, math.pi) else max(slopes)
    return low, high, steepest, max(abs(low), abs(high))


def _cos(lower: float, upper: float) -> Reach:
    return _sin(lower + math.pi / 2, upper + math.pi / 2)


def _exp(lower: float, upper: float) -> Reach:
    high = math.exp(upper) if upper < 700 else math.inf
    return (math.exp(lower) if lower < 700 else 0.0), high, high, high


def _log(lower: float, upper: float) -> Reach:
    if lower <= 0:
        return -math.inf, math.inf, math.inf, math.inf
    return math.log(lower), math.log(upper), 1 / lower, 1 / lower / lower


def _sqrt(lower: float, upper: float) -> Reach:
    if lower <= 0:
        high = math.sqrt(upper) if upper > 0 else math.inf
        return 0.0, high, math.inf, math.inf
    low = math.sqrt(lower)
    return low, math.sqrt(upper), 1 / (2 * low), 1 / (4 * low) / lower


def _tanh(lower: float, upper: float) -> Reach:
    nearest = max(0.0, lower, -upper)  # |a| at its least
    steepest = 1 - math.tanh(nearest) ** 2
    return math.tanh(lower), math.tanh(upper), steepest + _ULPS, _TANH_BENDS


def _sigmoid(lower: float, upper: float) -> Reach:
    low, high = ((1 + math.tanh(end / 2)) / 2 for end in (lower, upper))
    return low, high, 0.25, _SIGMOID_BENDS


_FUNCTIONS = {
    "sin": _sin,
    "cos": _cos,
    "exp": _exp,
    "log": _log,
    "sqrt": _sqrt,
    "tanh": _tanh,
    "sigmoid": _sigmoid,
}
