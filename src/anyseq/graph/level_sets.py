"""The sets {(r, c): α_c + β_r >= 0}, keys that can stand on top: the least one that is enough.

If β_1 >= β_2 >= ..., each column gives its first entries, however many. So all orders of the rows
give all sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np

from anyseq.graph.sums import choices, least, prefixes, subsets, union

_MOST_ORDERED = 6  # 6! orders are written out
_DRAWN = 64  # of more rows, so many orders are tried before a search

Rows = Sequence[tuple[int, ...]]


def least_level_set(table: Sequence[Sequence[int]], enough: int) -> int:
    """The least sum over such a set, not all of the table, that is at least `enough`; -1 if none.

    Up to six rows (or columns, if these are fewer) are put in all orders, more in some. The sums
    of all sets of entries that are less than what was found are then searched for, one by one.
    """
    columns = list(zip(*table, strict=True))
    rows = [tuple(row) for row in table] if len(table) <= len(columns) else columns
    total = sum(map(sum, rows))
    if len(rows) <= _MOST_ORDERED:
        return least(union(map(_sums, set(permutations(rows)))) & ~(1 << total), enough)
    rng = np.random.default_rng(0)
    seen = union(_sums([rows[r] for r in rng.permutation(len(rows))]) for _ in range(_DRAWN))
    found = least(seen & ~(1 << total), enough)
    possible = _sums([], rows) & ~(1 << total)
    size = least(possible, enough)
    # what is left out of such a set is such a set again: the smaller one is easier to search for
    while size != found and not _reached([], rows, min(size, total - size)):
        size = least(possible, size + 1)
    return size


def _reached(first: Rows, rest: Rows, size: int) -> bool:
    """Whether `size` is the sum over a set for an order of the rows that begins with `first`."""
    if not _sums(first, rest, size) >> size & 1:
        return False
    return not rest or any(
        _reached([*first, rest[r]], [*rest[:r], *rest[r + 1 :]], size)
        for r in range(len(rest))
        if rest[r] not in rest[:r]
    )


def _sums(first: Rows, rest: Rows = (), most: int | None = None) -> int:
    """Bit s, s <= most: s is a sum of one choice a column: of its first entries, however many, or
    all of these and any of the rest."""
    parts = []
    for column in zip(*first, *rest, strict=True):
        some = prefixes(column[: len(first)])
        parts.append({*some, *(some[-1] + more for more in subsets(column[len(first) :]))})
    return choices(parts, most)
