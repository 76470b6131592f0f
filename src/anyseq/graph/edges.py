"""The edges of a pattern, row after row, without the n x n mask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np
import torch

from anyseq.base import check_time
from anyseq.design import Design
from anyseq.errors import InvalidArgument
from anyseq.patterns import Pattern

Array = np.ndarray

_BLOCK = 64  # rows that are looked at together
_MOST_EDGES = 1 << 27  # half a gigabyte of columns


@dataclass(frozen=True, eq=False)
class Edges:
    """Which of `size` vertices attend to which: vertex i attends to columns[starts[i] :
    starts[i+1]], in ascending order. starts: (size+1,) int64; columns: (edges,) int32."""

    starts: Array
    columns: Array

    @property
    def size(self) -> int:
        """The number of vertices."""
        return len(self.starts) - 1

    @property
    def count(self) -> int:
        """The number of edges."""
        return len(self.columns)

    @property
    def degrees(self) -> Array:
        """(size,) how many vertices each vertex attends to."""
        return np.diff(self.starts)

    def row(self, i: int) -> Array:
        """The vertices that vertex i attends to."""
        return self.columns[self.starts[i] : self.starts[i + 1]]

    def rows(self) -> Array:
        """(edges,) int32: the attending vertex of every edge."""
        return np.repeat(np.arange(self.size, dtype=np.int32), self.degrees)

    def reversed(self) -> Edges:
        """The edges reversed: which vertices attend to each vertex."""
        order = np.argsort(self.columns, kind="stable")
        degrees = np.bincount(self.columns, minlength=self.size)
        return Edges(_starts(degrees), self.rows()[order])


def vertices(design: Design) -> int:
    """The number of vertices of a design's graph: its tokens, and BOS before them."""
    return design.size


def seen_by_any_head(pattern: Pattern) -> Pattern:
    """The union of a pattern over the heads."""
    pattern.check_same()
    heads = pattern.heads()
    return pattern if len(heads) == 1 else reduce(or_, heads)


class TooManyEdges(InvalidArgument):
    """A graph that would take too much memory."""


def all_see_themselves(pattern: Pattern, size: int) -> bool:
    """Whether every vertex attends to itself, in every head."""
    zero, index = torch.zeros((), dtype=torch.int64), torch.arange(size)
    return all(
        not head.differs and bool(head.at(size)(zero, zero, index, index).all())
        for head in dict.fromkeys(pattern.heads())
    )


def row_blocks(pattern: Pattern, size: int) -> Iterator[tuple[Array, Array, Array]]:
    """The mask of a pattern that is the same for all heads, some rows at a time: the rows (r,), the
    columns (c,) that they may attend to, ascending, and which of them they do, (r, c) bool."""
    mask_mod, maybe = pattern.at(size), pattern.blocks(size, _BLOCK).some_maybe.numpy()
    zero, inside = torch.zeros((), dtype=torch.int64), np.arange(_BLOCK)
    for block, open_ in enumerate(maybe):
        check_time()
        rows = np.arange(block * _BLOCK, min((block + 1) * _BLOCK, size))
        columns = (np.flatnonzero(open_)[:, None] * _BLOCK + inside).ravel()
        columns = columns[columns < size]
        if len(columns):
            i, j = torch.from_numpy(rows)[:, None], torch.from_numpy(columns)[None, :]
            yield rows, columns, mask_mod(zero, zero, i, j).expand(len(rows), len(columns)).numpy()


def edges_of(pattern: Pattern, size: int, most: int = _MOST_EDGES) -> Edges:
    """The edges of a pattern, in any head, for `size` vertices."""
    pattern = seen_by_any_head(pattern)
    offsets = pattern.offsets(size)
    if offsets is not None:  # they tell how many there are, before any is listed
        lengths = size - np.abs(np.arange(1 - size, size))
        _check_count(pattern, size, int(lengths[offsets.numpy()].sum()), most)
    degrees, columns, total = np.zeros(size, dtype=np.int64), [np.zeros(0, dtype=np.int32)], 0
    for rows, candidates, mask in row_blocks(pattern, size):
        many = np.count_nonzero(mask, axis=1)
        # flat places, less where their row starts: much quicker than `nonzero` of two axes
        place = np.flatnonzero(mask) - np.repeat(np.arange(len(rows)) * len(candidates), many)
        degrees[rows] = many
        columns.append(candidates[place].astype(np.int32))
        total += len(place)
        _check_count(pattern, size, total, most)
    return Edges(_starts(degrees), np.concatenate(columns))


def _check_count(pattern: Pattern, size: int, count: int, most: int) -> None:
    if count > most:
        raise TooManyEdges(
            f"tokens={size}: the pattern {type(pattern).__name__} has more than "
            f"{most:,} connections there; expected fewer tokens or a sparser pattern"
        )


def _starts(degrees: Array) -> Array:
    return np.concatenate([[0], np.cumsum(degrees, dtype=np.int64)])
