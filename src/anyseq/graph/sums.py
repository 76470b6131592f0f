"""How many keys the sets have that can stand on top: whole numbers as the bits of one number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, permutations

_MOST_ORDERED = 6  # 6! orders are tried


def choices(parts: Iterable[Iterable[int]]) -> int:
    """Bit s: s is a sum of one number out of each part."""
    sums = 1
    for part in parts:
        sums = _union(sums << number for number in set(part))
    return sums


def prefixes(sizes: Iterable[int]) -> list[int]:
    """0 and the sums of the first, the first two, ... sizes."""
    return list(accumulate(sizes, initial=0))


def free_sets(table: Sequence[Sequence[int]]) -> int:
    """The sums of all sets of entries."""
    return choices((0, size) for row in table for size in row)


def level_sets(table: Sequence[Sequence[int]]) -> int | None:
    """The sums over the sets {(r, c): α_c + β_r >= 0}, for all α and β.

    If β_1 >= β_2 >= ..., each column gives its first entries, however many, so all orders of the
    rows (or of the columns, if these are fewer) give all sets. None for more than 6! orders.
    """
    rows = table if len(table) <= len(table[0]) else list(zip(*table, strict=True))
    if len(rows) > _MOST_ORDERED:
        return None
    orders = set(permutations(map(tuple, rows)))
    return _union(choices(map(prefixes, zip(*order, strict=True))) for order in orders)


def whole_lines(table: Sequence[Sequence[int]]) -> int:
    """The sums over sets of whole rows, and over sets of whole columns."""
    lines = (table, list(zip(*table, strict=True)))
    return _union(choices((0, sum(line)) for line in part) for part in lines)


def least(sums: int, enough: int) -> int:
    """The least of the sums that is `enough` or more; -1 if there is none."""
    above = sums >> enough
    return enough + (above & -above).bit_length() - 1 if above else -1


def _union(sets: Iterable[int]) -> int:
    union = 0
    for one in sets:
        union |= one
    return union
