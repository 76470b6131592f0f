"""Reach where every pattern depends on the offset i - j only.

Sums of steps, one a layer (0 = waiting), say which offsets k - j can be crossed. Two bounds:

- *surely*: an offset δ >= 0 that is a sum of steps >= 0 is crossed between any two tokens that far
  apart, since the route never leaves the interval between them; the same downward.
- *possibly*: a route from j to k is a sum of steps, and what it crosses between any two of its
layers
  is less than the number of vertices. No token crosses an offset that is not such a sum.

If a pattern is circulant, steps are counted modulo the number of vertices, there is no border, and
both bounds are the same. All sets grow with the layers, so the least number of layers that crosses
everything wanted is found by doubling: logarithmically many convolutions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from anyseq.base import check_time
from anyseq.graph.edges import Array
from anyseq.graph.fourier import sums_of_places
from anyseq.graph.wanted import Wanted, grown

Steps = Array
"""(2 size - 1,) bool for the offsets 1-size, ..., size-1."""

_COUNTED_LAYERS = 32  # counting takes a convolution a layer


@dataclass(frozen=True, eq=False)
class Crossing:
    """What the offsets prove. layers: None if some pairs never meet."""

    layers: int | None
    unreached: tuple[int, int] | None
    last: tuple[tuple[int, int], ...]
    reached: tuple[int, ...] | None


def cross(cycle: Sequence[Steps], wanted: Wanted, limit: int) -> Crossing | None:
    """Reach from the offsets alone; None where the two bounds do not meet."""
    size, asked = wanted.size, wanted.offsets()
    waiting = np.arange(1 - size, size) == 0
    cycle = [steps | waiting for steps in cycle]
    if size > 1 and all(_circulant(steps) for steps in cycle):
        possible = surely = _around(size)
    else:
        possible, surely = _anywhere(size), _one_way(size)
    first = _least(cycle, asked, surely)
    if possible is not surely and _least(cycle, asked, possible) != first:
        return None
    if first is None:
        crossed = _closure(cycle, possible)
        offset = int(np.flatnonzero(asked & ~crossed)[0]) + 1 - size
        counts = _counts(cycle, wanted, None, surely, possible)
        return Crossing(None, wanted.pairs_at(offset, 1)[0], (), counts)
    last: list[tuple[int, int]] = []
    if first > 0:
        before = _after(cycle, first - 1, possible)
        for place in np.flatnonzero(asked & ~before).tolist():
            last += wanted.pairs_at(place + 1 - size, limit - len(last))
            if len(last) == limit:
                break
    return Crossing(first, None, tuple(last), _counts(cycle, wanted, first, surely, possible))


Sum = Callable[[Steps, Steps], Steps]
"""Sums of an offset of the one and then one of the other."""


def _anywhere(size: int) -> Sum:
    return lambda a, b: sums_of_places(a, b)[size - 1 : 3 * size - 2]


def _one_way(size: int) -> Sum:
    """Both upward or both downward."""

    def both(a: Steps, b: Steps) -> Steps:
        up = sums_of_places(a[size - 1 :], b[size - 1 :])[:size]
        down = sums_of_places(a[size - 1 :: -1], b[size - 1 :: -1])[:size]
        return np.concatenate([down[:0:-1], up])

    return both


def _around(size: int) -> Sum:
    """Modulo `size`."""

    def both(a: Steps, b: Steps) -> Steps:
        sums = np.zeros(2 * size, dtype=bool)
        sums[: 2 * size - 1] = sums_of_places(a[size - 1 :], b[size - 1 :])
        once = sums[:size] | sums[size:]
        return np.concatenate([once[1:], once])

    return both


def _circulant(steps: Steps) -> bool:
    size = (len(steps) + 1) // 2
    return np.array_equal(steps[: size - 1], steps[size:])


def _least(cycle: Sequence[Steps], asked: Steps, add: Sum) -> int | None:
    """The fewest layers after which every wanted offset is crossed."""

    def enough(steps: Steps) -> bool:
        return bool((steps | ~asked).all())

    waiting = np.zeros_like(asked)
    waiting[len(asked) // 2] = True
    if enough(waiting):
        return 0
    powers = [_after(cycle, len(cycle), add)]  # 1, 2, 4, ... times through the cycle
    while not enough(powers[-1]):
        powers.append(add(powers[-1], powers[-1]))
        if np.array_equal(powers[-2], powers[-1]):
            return None
    done, times = waiting, 0
    for exponent in reversed(range(len(powers))):
        longer = add(done, powers[exponent])
        if not enough(longer):
            done, times = longer, times + 2**exponent
    layers = times * len(cycle)
    for steps in cycle:
        done, layers = add(done, steps), layers + 1
        if enough(done):
            break
    return layers


def _after(cycle: Sequence[Steps], layers: int, add: Sum) -> Steps:
    """The offsets that so many layers cross. Segments of a route are joined in their order, since
    only what lies between two of its layers is bounded."""
    waiting = np.zeros_like(cycle[0])
    waiting[len(waiting) // 2] = True
    times, rest = divmod(layers, len(cycle))
    once, done = waiting, waiting
    if times:
        for steps in cycle:
            check_time()
            once = add(once, steps)
    while times:
        if times % 2:
            done = add(done, once)
        times //= 2
        once = add(once, once) if times else once
    for steps in cycle[:rest]:
        check_time()
        done = add(done, steps)
    return done


def _closure(cycle: Sequence[Steps], add: Sum) -> Steps:
    """The offsets that any number of layers crosses."""
    done = _after(cycle, len(cycle), add)
    while not np.array_equal(done, further := add(done, done)):
        done = further
    return done


def _counts(
    cycle: Sequence[Steps], wanted: Wanted, layers: int | None, surely: Sum, possible: Sum
) -> tuple[int, ...] | None:
    """The wanted pairs reached after 0, 1, ... layers, where both bounds agree and it is quick."""
    offset = np.arange(1 - wanted.size, wanted.size)
    pairs = np.where(wanted.offsets(), wanted.tokens - np.abs(offset), 0)
    if layers is not None and layers > _COUNTED_LAYERS:
        return None
    low = high = offset == 0
    counts, still = [int(pairs[low].sum())], 0
    while len(counts) <= _COUNTED_LAYERS:
        if len(counts) - 1 == layers or still == len(cycle):
            return grown(counts)
        steps = cycle[(len(counts) - 1) % len(cycle)]
        before = low, high
        low, high = surely(low, steps), possible(high, steps)
        if not np.array_equal(pairs * low, pairs * high):
            return None
        counts.append(int(pairs[low].sum()))
        same = np.array_equal(low, before[0]) and np.array_equal(high, before[1])
        still = still + 1 if same else 0
    return None
