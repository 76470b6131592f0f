"""Which tokens reach one place: what the output at that place can depend on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anyseq.base import check_time
from anyseq.graph.edges import Array, edges_of, seen_by_any_head
from anyseq.graph.fourier import sums_of_places
from anyseq.patterns import Pattern


def hears(cycle: Sequence[Pattern | None], size: int, place: int, layers: int | None) -> Array:
    """(size,) bool: the vertices whose content reaches `place` through so many layers of the cycle,
    counted from its start; None: through any number. A layer that is None passes nothing on.

    Followed backward: before layer t there is what was there after it, and all that this attends
    to.
    """
    known = {one: _Looking(one, size) for one in set(cycle) if one is not None}
    heard = np.zeros(size, dtype=bool)
    heard[place] = True
    turns = range(len(cycle) * size) if layers is None else reversed(range(layers))
    still = 0
    for turn in turns:
        check_time()
        pattern = cycle[turn % len(cycle)]
        more = heard if pattern is None else heard | known[pattern].seen_from(heard)
        still = still + 1 if np.array_equal(more, heard) else 0
        heard = more
        if still == len(cycle):
            break
    return heard


class _Looking:
    """What vertices attend to in one pattern, in any head."""

    def __init__(self, pattern: Pattern, size: int) -> None:
        self.size, union = size, seen_by_any_head(pattern)
        offsets = union.offsets(size)
        self.offsets = None if offsets is None else np.flatnonzero(offsets.numpy()) - (size - 1)
        self.edges = edges_of(union, size) if offsets is None else None

    def seen_from(self, heard: Array) -> Array:
        """(size,) bool: what any of these vertices attends to."""
        if self.edges is not None:
            found = np.zeros(self.size, dtype=bool)
            found[self.edges.columns[heard[self.edges.rows()]]] = True
            return found
        assert self.offsets is not None
        steps = np.zeros(2 * self.size - 1)
        steps[self.size - 1 - self.offsets] = 1.0  # i attends to i - offset
        return sums_of_places(heard, steps)[self.size - 1 : 2 * self.size - 1]
