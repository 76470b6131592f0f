"""Wall-clock times worth comparing: alternating rounds, medians."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from statistics import median


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """How long one call takes."""
    start = clock()
    work()
    return clock() - start


def medians(
    works: Mapping[str, Callable[[], object]],
    rounds: int,
    seed: int = 0,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """The median time of each work; every round runs all of them once, after one warm-up.

    Each round has a different order, drawn from the seed: work that always ran after the same other
    work would always find the caches as that one left them.
    """
    times: dict[str, list[float]] = {name: [] for name in works}
    order, rng = list(works), random.Random(seed)
    for attempt in range(rounds + 1):
        for name in order:
            taken = seconds(works[name], clock)
            if attempt:
                times[name].append(taken)
        rng.shuffle(order)
    return {name: median(taken) for name, taken in times.items()}
