"""Powers of two, and the constants of float64 that the constructions rest on.

Sums and differences of multiples of 2^-j are exact in float64 while they stay below 2^(53-j), and
multiplying by a power of two never rounds. Every grid step, ramp width and shift of a construction
is therefore a power of two, found from a gap and a tolerance by the two functions below.
"""

from __future__ import annotations

import math

from anyseq.errors import InvalidArgument

EXACT_BITS = 53
"""Integers up to 2^53 are exact in float64."""

UNIT_ROUNDOFF = 2.0**-53
"""|fl(x) - x| <= UNIT_ROUNDOFF |x| for one rounding."""

ZERO_WEIGHT_GAP = 1024.0
"""A softmax score this far below the largest gets a weight of exactly 0 in float64.

exp(-x) underflows to 0 for x > 745.14; 1024 is the next power of two, so that multiplying by it is
exact. A weight that is merely tiny would still leak once multiplied by a large token id.
"""


def power_of_two_at_least(value: float) -> float:
    """The smallest power of two >= value > 0."""
    exponent = _exponent(value)
    return 2.0**exponent if 2.0**exponent >= value else 2.0 ** (exponent + 1)


def power_of_two_at_most(value: float) -> float:
    """The largest power of two <= value, value > 0."""
    return 2.0 ** _exponent(value)


def _exponent(value: float) -> int:
    """floor(log2(value)), exactly."""
    if not (math.isfinite(value) and value > 0):
        raise InvalidArgument(f"value={value!r}: expected a finite number > 0")
    return math.frexp(value)[1] - 1
