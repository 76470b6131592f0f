"""A mask that was seen, as a Pattern; and the same for a model of its real size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anyseq.patterns import Blocks, Causal, Full, Pattern, Window

Array = np.ndarray[Any, Any]
Widths = Mapping[str, tuple[int, int]]
"""Windows and chunks of a config: name -> (its width in the small copy, its real one)."""


@dataclass(frozen=True)
class Recognised:
    """small: the pattern of the small copy, whose mask is what was seen. real: the model's own.
    width: the name of the window or chunk that it has, if it has one of the config's."""

    small: Pattern
    real: Pattern
    width: str | None = None


def recognised(sees: Array, widths: Widths, others: Sequence[Recognised] = ()) -> Recognised | None:
    """The pattern whose mask was seen; None if it is not one of these: all tokens, those before,
    windows, chunks, and what is known of the family."""
    tokens = len(sees)
    for found in (*_candidates(sees, widths), *others):
        if np.array_equal(found.small.mask(tokens).numpy(), sees):
            return found
    return None


def _candidates(sees: Array, widths: Widths) -> Iterator[Recognised]:
    yield Recognised(Full(), Full())
    yield Recognised(Causal(), Causal())
    rows, columns = np.nonzero(sees)
    radius = int(abs(rows - columns).max(initial=0))
    if radius == 0:
        yield Recognised(Window(0), Window(0))
        return
    real, width = _real_radius(radius, widths)
    back, ahead = int((rows - columns).max()), int((columns - rows).max())
    if min(back, ahead) > 0 and back != ahead:
        (real_back, width), (real_ahead, _) = (_real_radius(one, widths) for one in (back, ahead))
        yield Recognised(Window(back, ahead), Window(real_back, real_ahead), width)
    before = Causal() & Window(real) if real else Window(0)
    yield Recognised(Causal() & Window(radius), before, width)
    yield Recognised(Window(radius), Window(real), width)
    for name, (size, real_size) in widths.items():
        yield Recognised(Causal() & Blocks(size), Causal() & Blocks(real_size), name)
        yield Recognised(Blocks(size), Blocks(real_size), name)


def _real_radius(radius: int, widths: Widths) -> tuple[int, str | None]:
    """What a radius is at the real size. A window of w counts the token itself, or does not, or is
    that of both sides together."""
    for name, (width, real) in widths.items():
        for seen, meant in (
            (width - 1, real - 1),
            (width, real),
            (width // 2, real // 2),
            (width // 2 - 1, real // 2 - 1),
        ):
            if radius == seen:
                return meant, name
    return radius, None
