"""A budget of time for work that may not end: searches ask now and then whether it is used up."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

_end: ContextVar[float] = ContextVar("end", default=math.inf)


class OutOfTime(Exception):
    """The budget is used up; who gave it says what is not known."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """What runs inside has so much time, or less, if there is less left of a budget around it."""
    before = _end.set(min(_end.get(), monotonic() + seconds))
    try:
        yield
    finally:
        _end.reset(before)


def remaining() -> float:
    """The seconds that are left; infinite where nobody has given a budget."""
    return _end.get() - monotonic()


def check_time() -> None:
    """Raise OutOfTime if the budget is used up."""
    if remaining() < 0:
        raise OutOfTime
