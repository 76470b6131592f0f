"""Multisets of n cells out of M, counted from 0 without gaps.

A multiset is the ascending sequence a_1 <= ... <= a_n, and its number is

    Σ_r C(a_r + r - 1, r),

the combinatorial number system: the multisets that stay below the last element v number
C(v + n - 1, n), so those with last element v follow them, in the order of their first n-1 elements.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch


def count(cells: int, size: int) -> int:
    """C(M+n-1, n)."""
    return math.comb(cells + size - 1, size)


def log2_count(cells: int, size: int) -> float:
    """log2 of `count`, for numbers too large to be worth computing."""
    logs = (math.lgamma(cells + size), -math.lgamma(size + 1), -math.lgamma(cells))
    return sum(logs) / math.log(2)


def multisets(cells: int, size: int) -> torch.Tensor:
    """(C(M+n-1, n), n) int64: all of them, ascending within, in the order of their numbers."""
    rows = torch.arange(cells)[:, None]
    for length in range(1, size):
        below = torch.tensor([count(top + 1, length) for top in range(cells)])
        last = torch.arange(cells).repeat_interleave(below)
        first = torch.arange(len(last)) - (below.cumsum(0) - below)[last]
        rows = torch.cat([rows[first], last[:, None]], dim=1)
    return rows


def number(ascending: torch.Tensor, cells: int) -> torch.Tensor:
    """(..., n) -> (...): the number of each multiset."""
    size = ascending.shape[-1]
    return _binomials(cells, size)[torch.arange(size), ascending].sum(-1)


@lru_cache(maxsize=8)
def _binomials(cells: int, size: int) -> torch.Tensor:
    """(n, M): C(a + r - 1, r) for r = 1, ..., n; each row is the running sum of the one before."""
    rows = [torch.arange(cells)]
    for _ in range(size - 1):
        rows.append(rows[-1].cumsum(0))
    return torch.stack(rows)


def first_equals(ascending: torch.Tensor) -> torch.Tensor:
    """(..., n) int64: for every element the place of the first one equal to it, which is how many
    are below it."""
    return (ascending[..., :, None] > ascending[..., None, :]).sum(-1)
