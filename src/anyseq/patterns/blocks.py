"""Which blocks of a mask are empty, partial or full, found without the n x n mask.

A mask of n tokens is cut into blocks of size x size (the last ones may be shorter, and count as
partial, as FlexAttention has it). A pattern says what is known about each block; the algebra
combines this knowledge; a block that stays undecided is computed entry by entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

MaskMod = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""(batch, head, query index, key index) -> may attend; tensor operators only, they broadcast."""

_ENTRIES = 1 << 24  # entries of open blocks that are looked at in one go


@dataclass(frozen=True)
class BlockBounds:
    """(blocks, blocks) bool each: what is sure and what is possible for query block I, key block J.

    some_sure <= some allowed pair <= some_maybe;   all_sure <= all pairs allowed <= all_maybe.
    """

    some_sure: torch.Tensor
    some_maybe: torch.Tensor
    all_sure: torch.Tensor
    all_maybe: torch.Tensor

    @classmethod
    def exact(cls, some: torch.Tensor, all_: torch.Tensor) -> BlockBounds:
        """Everything is known."""
        return cls(some, some, all_, all_)

    @classmethod
    def unknown(cls, n: int, size: int) -> BlockBounds:
        """Nothing is known."""
        count = -(-n // size)
        no = torch.zeros(count, count, dtype=torch.bool)
        return cls(no, ~no, no, ~no)

    def __or__(self, other: BlockBounds) -> BlockBounds:
        both = self.some_maybe & other.some_maybe
        return BlockBounds(
            self.some_sure | other.some_sure,
            self.some_maybe | other.some_maybe,
            self.all_sure | other.all_sure,
            # two partial masks may fill a block together, one and an empty one cannot
            self.all_maybe | other.all_maybe | both,
        )

    def __invert__(self) -> BlockBounds:
        return BlockBounds(~self.all_maybe, ~self.all_sure, ~self.some_maybe, ~self.some_sure)

    def __and__(self, other: BlockBounds) -> BlockBounds:
        return ~(~self | ~other)


def bounds_from_offsets(allowed: torch.Tensor, n: int, size: int) -> BlockBounds:
    """Exact bounds of a mask that depends on i - j; `allowed` (2n-1,) for offsets 1-n, ..., n-1.

    The offsets within a block are an interval, so counts of allowed ones are differences of sums.
    """
    sums = torch.cat([torch.zeros(1, dtype=torch.int64), allowed.cumsum(0)])
    first, last = _spans(n, size)
    low = first[:, None] - last[None, :] + n - 1
    high = last[:, None] - first[None, :] + n - 1
    count = sums[high + 1] - sums[low]
    return BlockBounds.exact(count > 0, count == high - low + 1)


def bounds_from_columns(columns: torch.Tensor, size: int) -> BlockBounds:
    """Exact bounds of a mask whose row i allows the different columns (n, count)[i]."""
    n = len(columns)
    blocks = -(-n // size)
    pair = columns // size + (torch.arange(n) // size * blocks)[:, None]
    count = torch.bincount(pair.flatten(), minlength=blocks**2).view(blocks, blocks)
    first, last = _spans(n, size)
    length = last - first + 1
    return BlockBounds.exact(count > 0, count == length[:, None] * length[None, :])


def classify(bounds: BlockBounds, mask_mod: MaskMod, n: int, size: int) -> BlockBounds:
    """Exact bounds: undecided blocks are computed entry by entry."""
    some, full = bounds.some_sure.clone(), bounds.all_sure.clone()
    open_ = (bounds.some_sure != bounds.some_maybe) | (bounds.all_sure != bounds.all_maybe)
    for pairs, mask, within in look(open_, mask_mod, n, size):
        rows, columns = pairs.T
        some[rows, columns] = mask.flatten(1).any(1)
        full[rows, columns] = (mask | ~within).flatten(1).all(1)
    return BlockBounds.exact(some, full)


def look(
    blocks: torch.Tensor, mask_mod: MaskMod, n: int, size: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """The marked blocks, some at a time: (P, 2) which, (P, size, size) their masks, and which of
    these entries lie within the n tokens."""
    inside = torch.arange(size)
    zero = torch.zeros((), dtype=torch.int64)
    for pairs in blocks.nonzero().split(max(1, _ENTRIES // size**2)):
        i = (pairs[:, :1] * size + inside)[:, :, None]
        j = (pairs[:, 1:] * size + inside)[:, None, :]
        within = (i < n) & (j < n)
        mask = mask_mod(zero, zero, i.clamp(max=n - 1), j.clamp(max=n - 1))
        yield pairs, mask & within, within


def _spans(n: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The first and the last token of each block."""
    first = torch.arange(0, n, size)
    return first, (first + size - 1).clamp(max=n - 1)
