"""Which pairs of tokens must be connected for a target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyseq.base import one_of
from anyseq.design import Design
from anyseq.graph.edges import Array

TARGETS = ("all", "causal")
WORD = 64  # bits of a word


@dataclass(frozen=True)
class Wanted:
    """The pairs (k, j) of real tokens with "j must reach k": all, or those with j <= k.

    Vertices are numbered as in the graph, where BOS, if any, comes first.
    """

    tokens: int
    bos: bool
    target: str

    @classmethod
    def of(cls, design: Design, target: str) -> Wanted:
        """The pairs that `target` requires of a design."""
        return cls(design.tokens, design.bos, one_of("target", target, TARGETS))

    @property
    def size(self) -> int:
        """The number of vertices."""
        return self.tokens + self.bos

    @property
    def pairs(self) -> int:
        """How many pairs are wanted."""
        both = self.tokens**2
        return both if self.target == "all" else (both + self.tokens) // 2

    def words(self, first: int, last: int) -> Array:
        """(last-first, words) uint64: bit j of row k says whether (k, j) is wanted, for the
        vertices k = first, ..., last-1."""
        k = np.arange(first, last)
        end = np.array([self.size]) if self.target == "all" else k + 1
        bits = np.clip(end[:, None] - np.arange(0, self.size, WORD), 0, WORD).astype(np.uint64)
        # a shift by all 64 bits is not defined, so the last one is done apart
        words = ~(~np.uint64(0) << np.minimum(bits, np.uint64(WORD - 1)))
        words[bits == WORD] = ~np.uint64(0)
        if self.bos:
            words[:, 0] &= ~np.uint64(1)
        asked: Array = words * (k >= self.bos).astype(np.uint64)[:, None]
        return asked

    def matrix(self) -> Array:
        """(size, size) bool: whether (k, j) is wanted."""
        matrix = np.ones((self.size, self.size), dtype=bool)
        if self.target == "causal":
            matrix = np.tri(self.size, dtype=bool)
        if self.bos:
            matrix[0] = matrix[:, 0] = False
        return matrix

    def offsets(self) -> Array:
        """(2 size - 1,) bool for k-j = 1-size, ..., size-1: which offsets wanted pairs have."""
        offset = np.arange(1 - self.size, self.size)
        inside: Array = np.abs(offset) < self.tokens
        return inside if self.target == "all" else inside & (offset >= 0)

    def pairs_at(self, offset: int, limit: int) -> list[tuple[int, int]]:
        """The first wanted pairs (k, j) of tokens, counted without BOS, with k-j = offset."""
        low, high = max(0, offset), min(self.tokens, self.tokens + offset)
        return [(k, k - offset) for k in range(low, min(high, low + limit))]

    def token_pairs(self, k: Array, j: Array) -> list[tuple[int, int]]:
        """Pairs of vertices as pairs of tokens."""
        return [(int(a) - self.bos, int(b) - self.bos) for a, b in zip(k, j, strict=True)]


def grown(counts: list[int]) -> tuple[int, ...]:
    """Counts after 0, 1, ... layers, up to the last layer that added to them."""
    return tuple(counts[: counts.index(counts[-1]) + 1])
