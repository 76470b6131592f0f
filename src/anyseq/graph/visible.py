"""The keys of each vertex, for sums over them: without a list of edges where offsets determine
it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from anyseq.graph.edges import Array, edges_of
from anyseq.patterns import Pattern

_MOST_RUNS = 32  # of offsets; more are quicker edge by edge
_MOST_EDGES = 1 << 25  # a few hundred megabytes


class Visible(Protocol):
    """Which tokens each token attends to, the same in all heads."""

    def sums(self, values: Array) -> Array:
        """(size, columns) float64 -> the same shape: for every vertex, the sum of the rows of those
        that it attends to. Nothing is subtracted, so that small numbers keep all their digits."""

    def last_seer(self) -> Array:
        """(size,) int64: the last vertex that attends to this one; -1 if none does."""

    def looks_ahead(self) -> bool:
        """Whether some vertex attends to a later one."""


def visible(pattern: Pattern, size: int) -> Visible:
    """The keys of `size` vertices in a pattern that is the same in all heads."""
    offsets = pattern.offsets(size)
    runs = [] if offsets is None else _runs(offsets.numpy())
    if offsets is not None and len(runs) <= _MOST_RUNS:
        return _ByOffsets(size, tuple(runs))
    from scipy.sparse import csr_matrix

    edges = edges_of(pattern, size, _MOST_EDGES)
    ones = np.ones(edges.count)
    return _ByEdges(csr_matrix((ones, edges.columns, edges.starts), shape=(size, size)))


def degrees(seen: Visible, size: int) -> Array:
    """(size,) float64: how many keys each vertex attends to."""
    many: Array = seen.sums(np.ones((size, 1)))[:, 0]
    return many


def _runs(offsets: Array) -> list[tuple[int, int]]:
    """The first and the last of each run of offsets i - j, from a mask of 1-size, ..., size-1."""
    steps = np.diff(np.concatenate([[0], offsets.astype(np.int8), [0]]))
    zero = len(offsets) // 2
    first, last = np.flatnonzero(steps == 1) - zero, np.flatnonzero(steps == -1) - 1 - zero
    return list(zip(first.tolist(), last.tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class _ByOffsets:
    """i attends to j if low <= i - j <= high, for one of the runs (low, high)."""

    size: int
    runs: tuple[tuple[int, int], ...]

    def sums(self, values: Array) -> Array:
        total = np.zeros_like(values)
        for low, high in self.runs:
            total += self._run(values, low, high)
        return total

    def _run(self, values: Array, low: int, high: int) -> Array:
        """Sums of high - low + 1 neighbours, put together from sums of 1, 2, 4, ... of them."""
        length, size = high - low + 1, self.size
        # row k is vertex k - high: vertex i sees the rows i, ..., i + length - 1
        block = np.zeros((size + length - 1, values.shape[1]))
        first, last = max(0, -high), min(size, size - low)
        block[first + high : last + high] = values[first:last]
        total, start, width = np.zeros_like(values), 0, 1
        while length:
            if length % 2:
                total += block[start : start + size]
                start += width
            length //= 2
            if length:
                block = block[:-width] + block[width:]
                width *= 2
        return total

    def last_seer(self) -> Array:
        key, last = np.arange(self.size), np.full(self.size, -1)
        for low, high in self.runs:
            seer = np.minimum(self.size - 1, key + high)
            last = np.where(seer >= np.maximum(0, key + low), np.maximum(last, seer), last)
        return last

    def looks_ahead(self) -> bool:
        return any(low < 0 for low, _ in self.runs)


@dataclass(frozen=True, eq=False)
class _ByEdges:
    """matrix: (size, size) sparse; row i has a 1 for each vertex that i attends to."""

    matrix: Any

    def sums(self, values: Array) -> Array:
        total: Array = self.matrix @ values
        return total

    def last_seer(self) -> Array:
        last = np.full(self.matrix.shape[0], -1)
        np.maximum.at(last, self.matrix.indices, self._rows())
        return last

    def looks_ahead(self) -> bool:
        return bool((self.matrix.indices > self._rows()).any())

    def _rows(self) -> Array:
        matrix = self.matrix
        rows: Array = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        return rows
