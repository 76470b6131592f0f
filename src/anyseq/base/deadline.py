"""A time budget for work that may not end: searches check now and then whether it is used up."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

_end: ContextVar[float] = ContextVar("end", default=math.inf)


class OutOfTime(Exception):
    """The budget is used up; the caller who set it says what remains unknown."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Limit the work inside to so many seconds, or to what is left of an enclosing budget."""
    before = _end.set(min(_end.get(), monotonic() + seconds))
    try:
        yield
    finally:
        _end.reset(before)


def remaining() -> float:
    """The seconds that are left; infinite if no budget is set."""
    return _end.get() - monotonic()


def check_time() -> None:
    """Raise OutOfTime if the budget is used up."""
    if remaining() < 0:
        raise OutOfTime
