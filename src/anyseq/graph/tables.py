"""The tables T_i of a layer: how many visible keys of each label and colour a vertex has.

T_i[r, (g, c)] = number of visible j with bias label r, gain label g, colour c; "columns" are the
pairs (g, c). All vertices at once: edges sorted by (i, r, g, c), equal ones counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from anyseq.graph.edges import Array, Edges
from anyseq.graph.labels import Labels
from anyseq.graph.rational import PRIME, exact_key, powers

_EMPTY = b"empty"  # a vertex that sees nothing: attention gives it 0


@dataclass(frozen=True, eq=False)
class LabelledEdges:
    """Edges with labels. row: (edges,) the attending vertices; column: those attended to, or `size`
    for a sink;
    kind: (edges,) a number of the pair (r, g), so that pairs are in order; r, g: of each kind."""

    size: int
    row: Array
    column: Array
    kind: Array
    r: Array
    g: Array

    @classmethod
    def of(cls, edges: Edges, labels: Labels, sink: bool) -> LabelledEdges:
        """A sink is a key that every token attends to, with its own label and colour."""
        size = edges.size
        both = np.stack([labels.bias, labels.gain], 1)
        pairs, number = np.unique(both, axis=0, return_inverse=True)
        row, column = edges.rows().astype(np.int64), edges.columns.astype(np.int64)
        kind = number.ravel()[labels.at(row, column)]
        r, g = (np.unique(side, return_inverse=True)[1].ravel() for side in pairs.T)
        if sink:
            everybody = np.arange(size)
            row, column = np.append(row, everybody), np.append(column, np.full(size, size))
            kind = np.append(kind, np.full(size, len(r)))
            r, g = np.append(r, r.max() + 1), np.append(g, g.max() + 1)
        return cls(size, row, column, kind, r, g)


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables T_i under given colours; each method tells vertices apart by what it names.

    row, kind, colour, count: (entries,) the entries that are not 0, sorted by (i, r, g, c).
    """

    edges: LabelledEdges
    row: Array
    kind: Array
    colour: Array
    count: Array

    @classmethod
    def of(cls, edges: LabelledEdges, colours: Array) -> Tables:
        """colours: (size,) whole numbers, 0, 1, ..."""
        extended = np.append(colours, colours.max() + 1)  # the colour of a sink
        many, kinds = len(colours) + 1, len(edges.r)
        code = np.sort((edges.row * kinds + edges.kind) * many + extended[edges.column])
        starts = _changes(code)
        count = np.diff(np.append(starts, len(code)))
        rest, colour = np.divmod(code[starts], many)
        row, kind = np.divmod(rest, kinds)
        return cls(edges, row, kind, colour, count)

    @cached_property
    def _bounds(self) -> Array:
        """(size + 1,) where the entries of each vertex start."""
        return np.searchsorted(self.row, np.arange(self.edges.size + 1))

    @cached_property
    def column(self) -> Array:
        """(entries,) a number for (g, c)."""
        column: Array = self.edges.g[self.kind] * (self.edges.size + 1) + self.colour
        return column

    @cached_property
    def _by_column(self) -> tuple[Array, Array, Array, Array]:
        """Sums over r: (vertex, column, sum) of each, and which of them an entry belongs to."""
        code = self.row * ((self.edges.g.max() + 1) * (self.edges.size + 1)) + self.column
        _, first, which = np.unique(code, return_index=True, return_inverse=True)
        sums = np.bincount(which, weights=self.count).astype(np.int64)
        return self.row[first], self.column[first], sums, which

    @cached_property
    def _label_starts(self) -> Array:
        """Where the entries of a vertex and bias label start."""
        return _changes(self.row * (self.edges.r.max() + 1) + self.edges.r[self.kind])

    @cached_property
    def labels(self) -> Array:
        """(size,) how many bias labels a vertex attends to."""
        return np.bincount(self.row[self._label_starts], minlength=self.edges.size)

    @cached_property
    def unnamed_kind(self) -> Array:
        """(entries,) the kind; where a vertex has one bias label, its gain label only: a constant
        added to all scores changes no weight."""
        unnamed = len(self.edges.r) + self.edges.g[self.kind]
        kind: Array = np.where((self.labels == 1)[self.row], unnamed, self.kind)
        return kind

    @cached_property
    def visible(self) -> Array:
        """(size,) how many keys a vertex attends to."""
        return _sums(self.row, self.count, self.edges.size)

    @cached_property
    def columns(self) -> Array:
        """(size,) how many columns of T_i are not 0."""
        return np.bincount(self._by_column[0], minlength=self.edges.size)

    @cached_property
    def colourful(self) -> Array:
        """(size,) bool: whether a vertex attends to two colours."""
        low = np.full(self.edges.size, self.edges.size + 1)
        high = np.zeros(self.edges.size, dtype=np.int64)
        np.minimum.at(low, self.row, self.colour)
        np.maximum.at(high, self.row, self.colour)
        return high > low

    @cached_property
    def plain(self) -> Array:
        """(size,) bool: whether T_i has rank at most one: T_i[r, k] total = (sum over columns in r)
        (sum over r in column k) for all r and k, those with T_i[r, k] = 0 included."""
        size, starts = self.edges.size, self._label_starts
        across = np.add.reduceat(self.count, starts) if len(starts) else starts
        many = np.diff(np.append(starts, len(self.row)))
        expected = np.repeat(across, many) * self._by_column[2][self._by_column[3]]
        wrong = self.count * self.visible[self.row] != expected
        entries = np.bincount(self.row, minlength=size)
        plain: Array = (_sums(self.row, wrong, size) == 0) & (entries == self.labels * self.columns)
        return plain

    def shares(self) -> list[bytes]:
        """The proportions of the columns of T_i: what equal weights depend on."""
        row, column, sums, _ = self._by_column
        return self.keys(row, [column], sums, divide=True)

    def ratios(self) -> list[bytes]:
        """T_i up to a factor; where the rank is one, the shares only: what softmax with a free bias
        depends on. Shares of the columns are Σ_r e^{b_r} T_i[r, k] / Σ_r,k e^{b_r} T_i[r, k]; as
        functions of b they determine T_i up to a factor, unless all of them are constant, which is
        rank one.
        """
        whole = self.keys(self.row, [self.kind, self.colour], self.count, divide=True)
        return either(self.plain, self.shares(), whole)

    def counts(self, sure: Array) -> list[bytes]:
        """T_i itself where `sure`, the shares elsewhere."""
        whole = self.keys(self.row, [self.unnamed_kind, self.colour], self.count, divide=False)
        return either(~sure, self.shares(), whole)

    def rational(self, distance: Array) -> list[bytes]:
        """The polynomials L_k(q) = Σ_r T_i[r, k] q^distance(r), up to a common factor: what softmax
        with the bias -slope·distance depends on, q = e^-slope. A sink is a column of its own, L =
        1.

        distance: (labels,) for each r.
        """
        rough = self.fingerprints(distance)
        shared = {key for key, many in Counter(rough).items() if many > 1}
        apart, bounds = distance[self.edges.r[self.kind]], self._bounds
        keys = []
        for i, key in enumerate(rough):
            mine = slice(bounds[i], bounds[i + 1])
            # a vertex whose fingerprint is its own needs no exact key
            if key in shared and self.columns[i] > 1:
                key += exact_key(self.column[mine], apart[mine], self.count[mine], self.edges.size)
            keys.append(key)
        return keys

    def fingerprints(self, distance: Array) -> list[bytes]:
        """The ratios L_k / L_first at one point modulo a prime, which are equal where the L are the
        same up to a factor, if no L_first is 0 there; other points are tried until none is."""
        row, column, _, which = self._by_column
        starts = _changes(row)
        apart = distance[self.edges.r[self.kind]]
        point = 1
        while True:
            point += 1
            power = powers(point, int(distance.max()))
            terms = self.count * power[apart] % PRIME
            value = np.bincount(which, weights=terms, minlength=len(row)).astype(np.int64) % PRIME
            if value[starts].all():
                break
        inverse = np.array([pow(first, -1, PRIME) for first in value[starts].tolist()], np.int64)
        many = np.diff(np.append(starts, len(row)))
        return self.keys(row, [column], value * np.repeat(inverse, many) % PRIME, divide=False)

    def keys(self, row: Array, what: list[Array], amount: Array, *, divide: bool) -> list[bytes]:
        """The bytes of (what, amount) of each vertex; amounts divided by their common divisor."""
        starts = _changes(row)
        if divide and len(starts):
            common = np.gcd.reduceat(amount, starts)
            amount = amount // np.repeat(common, np.diff(np.append(starts, len(row))))
        entries = np.ascontiguousarray(np.stack([*what, amount], axis=1))
        bounds = np.searchsorted(row, np.arange(self.edges.size + 1))
        return [
            entries[bounds[i] : bounds[i + 1]].tobytes() or _EMPTY for i in range(self.edges.size)
        ]


def either(which: Array, one: list[bytes], other: list[bytes]) -> list[bytes]:
    """`one` where `which`, else `other`; never mixed up."""
    return [b"1" + a if first else b"2" + b for first, a, b in zip(which, one, other, strict=True)]


def _changes(ordered: Array) -> Array:
    """Where runs of equal numbers start."""
    return np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])


def _sums(row: Array, amount: Array, size: int) -> Array:
    return np.bincount(row, weights=amount, minlength=size).astype(np.int64)
