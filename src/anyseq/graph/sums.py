"""How many keys the sets have that can stand on top: whole numbers as the bits of one number."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate


def choices(parts: Iterable[Iterable[int]], most: int | None = None) -> int:
    """Bit s, s <= most: s is a sum of one number out of each part."""
    cut = -1 if most is None else (2 << most) - 1
    sums = 1
    for part in parts:
        sums = union(sums << number for number in set(part)) & cut
    return sums


def subsets(sizes: Iterable[int]) -> set[int]:
    """The sums of any of the sizes."""
    sums = {0}
    for size in sizes:
        sums |= {sum_ + size for sum_ in sums}
    return sums


def prefixes(sizes: Iterable[int]) -> list[int]:
    """0 and the sums of the first, the first two, ... sizes."""
    return list(accumulate(sizes, initial=0))


def least(sums: int, enough: int) -> int:
    """The least of the sums that is `enough` or more; -1 if there is none."""
    above = sums >> enough
    return enough + (above & -above).bit_length() - 1 if above else -1


def union(sets: Iterable[int]) -> int:
    """The sums of any of the sets."""
    union = 0
    for one in sets:
        union |= one
    return union
