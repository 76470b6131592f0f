"""Argument checks whose messages say what came and what was expected."""

from __future__ import annotations

import math
from collections.abc import Collection
from numbers import Integral, Real

from anyseq.errors import InvalidArgument

_LARGEST = 2**63 - 1  # what torch and numpy count with


def at_least_one(name: str, value: object) -> int:
    """`value` as an int >= 1."""
    return _counted(name, value, 1)


def whole(name: str, value: object) -> int:
    """`value` as an int >= 0."""
    return _counted(name, value, 0)


def _counted(name: str, value: object, least: int) -> int:
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else -1
    if number < least:
        raise InvalidArgument(f"{name}={value!r}: expected a whole number, {least} or more")
    if number > _LARGEST:
        raise InvalidArgument(f"{name} is beyond 2^63: expected a whole number below that")
    return number


def array_shape(name: str, value: object) -> tuple[int, ...]:
    """`value` as the lengths, 1 or more, of the axes of an array."""
    if not isinstance(value, tuple | list) or not value:
        raise InvalidArgument(f"{name}={value!r}: expected the length of each axis, such as (8, 8)")
    return tuple(at_least_one(name, length) for length in value)


def finite(name: str, value: object) -> float:
    """`value` as a finite float."""
    try:
        number = float(value) if isinstance(value, Real) else math.nan
    except OverflowError:
        number = math.inf
    # Compared, which torch.compile can trace for any number; math.isfinite it cannot.
    if isinstance(value, bool) or not -math.inf < number < math.inf:
        raise InvalidArgument(f"{name}={value!r}: expected a finite number")
    return number


def positive(name: str, value: object) -> float:
    """`value` as a finite float > 0."""
    number = finite(name, value)
    if number <= 0:
        raise InvalidArgument(f"{name}={value!r}: expected a number above 0")
    return number


def non_negative(name: str, value: object) -> float:
    """`value` as a finite float >= 0."""
    number = finite(name, value)
    if number < 0:
        raise InvalidArgument(f"{name}={value!r}: expected 0 or a number above 0")
    return number


def one_of(name: str, value: object, allowed: Collection[str]) -> str:
    """`value` as one of the allowed names."""
    if not isinstance(value, str) or value not in allowed:
        choices = ", ".join(repr(choice) for choice in allowed)
        raise InvalidArgument(f"{name}={value!r}: expected one of {choices}")
    return value
