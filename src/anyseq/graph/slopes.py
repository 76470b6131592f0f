"""What maps that leave keys without weight can tell apart through ALiBi's slopes.

The score of a key of colour c at distance d is α_c - m·d: α_c is free, and the slopes m of ever
more heads lie densely between 2^-8 and 1. Distances of a row may all change by one constant, which
shifts all its scores alike; a sink (a colour of its own at distance 0) forbids that. The arguments
why these keys are exact stand in docs/theorems.md, Lemma 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyseq.graph.edges import Array
from anyseq.graph.tables import Tables, either

_FLATTEST = 2**8  # one over the smallest slope


def nearest(tables: Tables, distance: Array) -> list[bytes]:
    """Hardmax: of each colour the nearest keys alone can win; how many there are in each column, up
    to a factor, and how far away, up to a constant."""
    order = Ordered.of(tables, distance)
    return order.keys(order.before == 0, divide=True)


def supported(tables: Tables, distance: Array, power: int) -> list[bytes]:
    """Sparsemax (power 1) and entmax15 (power 2): T_i without the keys that can never get weight,
    and up to a constant in the distances; nothing but its column where there is only one.

    Among keys of one colour alone, at distances d_1 < d_2 < ... in numbers n_1, n_2, ..., those at
    d_j have weight iff Σ_(a<j) n_a ((m/power)(d_j - d_a))^power < 1, which is weakest at the
    smallest slope; other colours only raise the threshold.
    """
    order = Ordered.of(tables, distance)
    return order.columns_of(order.gap(power) < (power * _FLATTEST) ** power)


def nearest_many(tables: Tables, distance: Array, k: int) -> list[bytes]:
    """Top-k with a gain for each offset: T_i without the keys that have k nearer ones of their own
    colour, up to a constant in the distances."""
    order = Ordered.of(tables, distance)
    return order.columns_of(order.before < k)


@dataclass(frozen=True, eq=False)
class Ordered:
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
    def of(cls, tables: Tables, distance: Array) -> Ordered:
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

    def smallest_last(self) -> Array:
        """(size,) the least number, over the colours, of farthest keys."""
        group = self.row * (self.tables.edges.size + 1) + self.colour
        last = np.append(group[1:] != group[:-1], True)[: len(group)]
        return self._least(self.row[last], self.count[last])


def _starts(*ordered: Array) -> Array:
    """(entries,) where the run of equal entries starts that an entry belongs to."""
    if not len(ordered[0]):
        return np.zeros(0, dtype=np.int64)
    change = np.any([np.append(True, part[1:] != part[:-1]) for part in ordered], axis=0)
    return np.maximum.accumulate(np.where(change, np.arange(len(change)), 0))
