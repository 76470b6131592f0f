"""How the content of tokens spreads, layer by layer: S_k = the vertices whose content k holds.

S_k after a layer = S_k ∪ ∪_{j attended to by k} S_j. Two ways to keep the sets: bits, a layer at a
time, for graphs with many edges and few layers; and the pairs that are new, for sparse graphs,
where there may be thousands of layers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from anyseq.base import check_time
from anyseq.graph.bits import members, unpack
from anyseq.graph.edges import Array, Edges
from anyseq.graph.wanted import WORD, Wanted

_CHUNK = 256  # rows of bits that are united in one go
_FEW = 16  # rows that mostly show some missing pairs
_EXPANSIONS = 1 << 22  # pairs that are extended in one go
_MATRIX_SIZE = 8192  # vertices for which a byte per pair is no trouble
_PAIR_WORK = 300_000_000  # pairs times edges that are followed in some seconds
_SHALLOW = 32  # layers of bits that take less than following pairs


class Spread(Protocol):
    """Which vertices' content each vertex holds, after the layers so far."""

    def advance(self) -> bool:
        """One more layer; whether it changed anything."""

    def missing(self, limit: int) -> list[tuple[int, int]]:
        """The first wanted pairs of tokens (k, j) for which k does not hold j."""

    def count(self) -> int:
        """How many wanted pairs (k, j) there are for which k holds j."""

    def matrix(self) -> Array:
        """(size, size) bool: whether k holds j."""


def spread(cycle: Sequence[Edges], wanted: Wanted) -> Spread:
    """The start, S_k = {k}; layers then repeat the patterns of the cycle in order."""
    work = wanted.size * sum(edges.count for edges in cycle)
    few = wanted.size <= _MATRIX_SIZE and work <= _PAIR_WORK
    return NewPairs(cycle, wanted) if few and _deep(cycle) else BitSets(cycle, wanted)


def _deep(cycle: Sequence[Edges]) -> bool:
    """A guess whether there are many layers: whether one of three tokens still spreads then."""
    size, looks = cycle[0].size, [(edges.rows(), edges.columns) for edges in cycle]
    holders = np.zeros((3, size), dtype=bool)
    holders[range(3), [0, size // 2, size - 1]] = True
    for layer in range(_SHALLOW + len(cycle)):
        if layer == _SHALLOW:
            before = holders.copy()
        rows, columns = looks[layer % len(looks)]
        for holds in holders:
            holds[rows[holds[columns]]] = True
    return bool((holders != before).any())


class NewPairs:
    """A byte per pair, and lists of the pairs that are new.

    A pair (v, j) that came up in some layer is passed on to all w that attend to v in the next
    layer of each pattern, and is not needed after that: with p patterns, layer t reads only the
    pairs of the layers t-p, ..., t-1. Over all layers every pair meets every edge at most once.
    """

    def __init__(self, cycle: Sequence[Edges], wanted: Wanted) -> None:
        self._seers, self._wanted, self._layer = [e.reversed() for e in cycle], wanted, 0
        self._holds = np.eye(wanted.size, dtype=bool)
        self._mask = wanted.matrix()
        self._count = wanted.tokens
        self._done = 0  # all rows before this one have all they want
        self._place = np.empty(wanted.size**2, dtype=np.int32)  # scratch of `_fresh`
        everybody = np.arange(wanted.size)
        # before the first layer every pattern is new to every pair
        self._recent = deque([everybody * (wanted.size + 1)], maxlen=len(cycle))

    def advance(self) -> bool:
        seers = self._seers[self._layer % len(self._seers)]
        parts = (part for pairs in self._recent for part in _cut(pairs, seers))
        new = np.concatenate([self._fresh(self._passed_on(part, seers)) for part in parts])
        self._recent.append(new)
        self._count += int(np.count_nonzero(self._mask.ravel()[new]))
        self._layer += 1
        return len(new) > 0

    def _passed_on(self, pairs: Array, seers: Edges) -> Array:
        """The pairs (w, j), as w size + j, for pairs (v, j) and all w that attend to v."""
        v, j = np.divmod(pairs, self._wanted.size)
        many = seers.degrees[v]
        within = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
        w = seers.columns[np.repeat(seers.starts[v], many) + within].astype(np.int64)
        passed: Array = w * self._wanted.size + np.repeat(j, many)
        return passed

    def _fresh(self, pairs: Array) -> Array:
        """Those that were not held, once each; they are held now."""
        pairs = pairs[~self._holds.ravel()[pairs]]
        self._holds.ravel()[pairs] = True
        # of equal pairs the one whose number stays in the scratch is kept: no sorting
        number = np.arange(len(pairs), dtype=np.int32)
        self._place[pairs] = number
        fresh: Array = pairs[self._place[pairs] == number]
        return fresh

    def missing(self, limit: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for first in range(self._done, self._wanted.size, _FEW):
            rows = slice(first, first + _FEW)
            k, j = np.nonzero(self._mask[rows] & ~self._holds[rows])
            if not found:
                self._done = first
            found += self._wanted.token_pairs(
                first + k[: limit - len(found)], j[: limit - len(found)]
            )
            if len(found) == limit:
                break
        return found

    def count(self) -> int:
        return self._count

    def matrix(self) -> Array:
        return self._holds.copy()


def _cut(pairs: Array, seers: Edges) -> list[Array]:
    """Parts of a list of pairs that each have few extensions."""
    ends = np.cumsum(seers.degrees[pairs // seers.size])
    if not len(ends) or ends[-1] <= _EXPANSIONS:
        return [pairs]
    return np.split(pairs, np.flatnonzero(np.diff(ends // _EXPANSIONS)) + 1)


class BitSets:
    """A bit per pair.

    The union over what k attends to is formed once for all k that attend to the same. Since k holds
    its own set anyway it makes no difference whether k attends to itself, so the choice that makes
    more rows equal is taken.
    """

    def __init__(self, cycle: Sequence[Edges], wanted: Wanted) -> None:
        self._unions, self._wanted, self._layer = [_alike(e) for e in cycle], wanted, 0
        vertex, words = np.arange(wanted.size), -(-wanted.size // WORD)
        self._sets = np.zeros((wanted.size, words), dtype=np.uint64)
        self._sets[vertex, vertex // WORD] = np.uint64(1) << (vertex % WORD).astype(np.uint64)
        self._total = wanted.size
        everything = np.full(words, ~np.uint64(0))
        if wanted.size % WORD:
            everything[-1] = ~(~np.uint64(0) << np.uint64(wanted.size % WORD))
        self._full = everything

    def advance(self) -> bool:
        kind, seen = self._unions[self._layer % len(self._unions)]
        held = members(self._sets)
        # somebody whose set is full makes a union full: ask the fullest first
        unions = np.stack([self._union(columns[np.argsort(-held[columns])]) for columns in seen])
        for first in range(0, self._wanted.size, _CHUNK):
            self._sets[first : first + _CHUNK] |= unions[kind[first : first + _CHUNK]]
        self._layer += 1
        before, self._total = self._total, int(members(self._sets).sum())
        return self._total > before

    def _union(self, columns: Array) -> Array:
        union: Array = np.zeros_like(self._full)
        for first in range(0, len(columns), _CHUNK):
            union |= np.bitwise_or.reduce(self._sets[columns[first : first + _CHUNK]], axis=0)
            if np.array_equal(union, self._full):
                break
        return union

    def missing(self, limit: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for first in range(0, self._wanted.size, _CHUNK):
            last = min(first + _CHUNK, self._wanted.size)
            open_ = self._wanted.words(first, last) & ~self._sets[first:last]
            for row in np.flatnonzero(open_.any(1)):
                j = np.flatnonzero(unpack(open_[row]))[: limit - len(found)]
                found += self._wanted.token_pairs(np.full(len(j), first + row), j)
                if len(found) == limit:
                    return found
        return found

    def count(self) -> int:
        total = 0
        for first in range(0, self._wanted.size, _CHUNK):
            last = min(first + _CHUNK, self._wanted.size)
            both = self._wanted.words(first, last) & self._sets[first:last]
            total += int(members(both).sum())
        return total

    def matrix(self) -> Array:
        return unpack(self._sets)[:, : self._wanted.size]


def _alike(edges: Edges) -> tuple[Array, list[Array]]:
    """(kind of each vertex, what each kind attends to): vertices of a kind attend to the same,
    themselves aside."""
    best: tuple[Array, list[Array]] | None = None
    for with_self in (True, False):
        kinds: dict[bytes, int] = {}
        kind = np.empty(edges.size, dtype=np.int64)
        seen: list[Array] = []
        check_time()
        for i in range(edges.size):
            row = edges.row(i)
            place = int(np.searchsorted(row, i))
            there = place < len(row) and row[place] == i
            if there and not with_self:
                row = np.delete(row, place)
            elif with_self and not there:
                row = np.insert(row, place, i)
            number = kinds.setdefault(row.tobytes(), len(seen))
            if number == len(seen):
                seen.append(row)
            kind[i] = number
        if best is None or len(seen) < len(best[1]):
            best = kind, seen
        if len(best[1]) == 1:
            break
    assert best is not None
    return best
