"""What maps that leave keys without weight see through ALiBi's slopes.

The score of a key of colour c at distance d is α_c - m·d: α_c is free, and the slopes m of ever
more heads lie densely between 2^-8 and 1. Distances of a row may all change by one constant, which
shifts all its scores alike; a sink (a colour of its own at distance 0) forbids that. The arguments
why these keys are exact stand in docs/theorems.md, Lemma 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from anyseq.graph.edges import Array
from anyseq.graph.tables import Tables, either

_FLATTEST = 2**8  # one over the smallest slope


def nearest(tables: Tables, distance: Array) -> list[bytes]:
    """Hardmax: of each colour the nearest keys alone can win; how many there are in each column, up
    to a factor, and how far away, up to a constant."""
    order = _Ordered.of(tables, distance)
    return order.keys(order.before == 0, divide=True)


def supported(tables: Tables, distance: Array, power: int) -> list[bytes]:
    """Sparsemax (power 1) and entmax15 (power 2): T_i without the keys that can never get weight,
    and up to a constant in the distances; nothing but its column where there is only one.

    Among keys of one colour alone, at distances d_1 < d_2 < ... in numbers n_1, n_2, ..., those at
    d_j have weight iff Σ_(a<j) n_a ((m/power)(d_j - d_a))^power < 1, which is weakest at the
    smallest slope; other colours only raise the threshold.
    """
    order = _Ordered.of(tables, distance)
    return order.columns_of(order.gap(power) < (power * _FLATTEST) ** power)


def nearest_many(tables: Tables, distance: Array, k: int) -> list[bytes]:
    """Top-k: T_i without the keys that have k nearer ones of their own colour, up to a constant in
    the distances: outputs are functions of that, and with a gain for each offset they show it."""
    order = _Ordered.of(tables, distance)
    return order.columns_of(order.before < k)


def entrances(tables: Tables, distance: Array, k: int) -> list[bytes]:
    """Top-k without gains, what is sure: the visible colours, and for colours c, c' of which one is
    the first visible, if c has k keys or more: the numbers of the k nearest keys of c (and of those
    as far as the k-th) by their distances to the nearest keys of c', up to a factor.

    With c far above c' only the k nearest of c have weight; lowering c until the k-th ties with the
    nearest key of c' lets these in, and no others. That offset and, as functions of the slope, the
    weights there, n'_1 q^(d'_1) against Σ_d n_d q^d, are seen.
    """
    order = _Ordered.of(tables, distance)
    bounds = np.searchsorted(order.row, np.arange(tables.edges.size + 1))
    return [order.pairs(slice(a, b), k) for a, b in pairwise(bounds)]


@dataclass(frozen=True, eq=False)
class _Ordered:
    """The entries of the tables by vertex, colour and distance. before: (entries,) how many keys of
    the same vertex and colour are nearer; first, second: sums of their distances and squares.
    """

    tables: Tables
    row: Array
    colour: Array
    distance: Array
    column: Array
    count: Array
    before: Array
    first: Array
    second: Array

    @classmethod
    def of(cls, tables: Tables, distance: Array) -> _Ordered:
        apart = distance[tables.edges.r[tables.kind]]
        order = np.lexsort((tables.column, apart, tables.colour, tables.row))
        row, colour, apart = tables.row[order], tables.colour[order], apart[order]
        count, column = tables.count[order], tables.column[order]
        group = row * (tables.edges.size + 1) + colour
        sums = []
        for amount in (count, count * apart, count * apart**2):
            total = np.append(0, np.cumsum(amount))
            # the sum up to the first entry of the same distance, less that up to the group's first
            sums.append(total[_starts(group, apart)] - total[_starts(group)])
        return cls(tables, row, colour, apart, column, count, *sums)

    def gap(self, power: int) -> Array:
        """Σ over nearer keys of the same colour of (difference of the distances)^power."""
        d = self.distance
        once: Array = self.before * d - self.first
        return once if power == 1 else d * once - d * self.first + self.second

    def keys(self, kept: Array, *, divide: bool) -> list[bytes]:
        """Columns, distances from the nearest kept one of all, and numbers of the kept entries."""
        row, distance = self.row[kept], self.distance[kept]
        nearest = self._least(row, distance)
        return self.tables.keys(
            row, [self.column[kept], distance - nearest[row]], self.count[kept], divide=divide
        )

    def columns_of(self, kept: Array) -> list[bytes]:
        """The kept entries; where they are of a single column, which has all the weight, that
        column."""
        row, column = self.row[kept], self.column[kept]
        single = self._least(row, column) == -self._least(row, -column)
        lone = self.tables.keys(row, [column], np.ones_like(row), divide=False)
        return either(single, [key[:16] for key in lone], self.keys(kept, divide=False))

    def _least(self, row: Array, amount: Array) -> Array:
        """(size,) the least amount of each vertex."""
        least = np.full(self.tables.edges.size, np.iinfo(np.int64).max)
        np.minimum.at(least, row, amount)
        return least

    def pairs(self, mine: slice, k: int) -> bytes:
        """`entrances` of one vertex."""
        colours, first, which = np.unique(self.colour[mine], return_index=True, return_inverse=True)
        if len(colours) == 1:
            return colours.tobytes()
        totals = np.bincount(which, weights=self.count[mine]).astype(np.int64)
        near, many = self.distance[mine][first], self.count[mine][first]
        seen: list[object] = []
        for c in range(len(colours)):
            if totals[c] < k:
                continue
            kept = (which == c) & (self.before[mine] < k)
            for other in range(1, len(colours)) if c == 0 else (0,):
                count = np.append(self.count[mine][kept], many[other])
                away = self.distance[mine][kept] - near[other]
                seen.append((c, away.tolist(), (count // np.gcd.reduce(count)).tolist()))
        return colours.tobytes() + repr(seen).encode()


def _starts(*ordered: Array) -> Array:
    """(entries,) where the run of equal entries starts that an entry belongs to."""
    if not len(ordered[0]):
        return np.zeros(0, dtype=np.int64)
    change = np.any([np.append(True, part[1:] != part[:-1]) for part in ordered], axis=0)
    return np.maximum.accumulate(np.where(change, np.arange(len(change)), 0))
