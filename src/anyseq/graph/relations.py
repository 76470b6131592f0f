"""Labelled graphs, and the colours that looking around in them gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anyseq.graph.edges import Array


@dataclass(frozen=True, eq=False)
class Relation:
    """Who sees whom, with a label: edge e says that row[e] sees column[e], and label[e] of it. All
    (edges,) int64, sorted by row."""

    size: int
    row: Array
    column: Array
    label: Array

    def keeps(self, image: Array) -> bool:
        """Whether a permutation of the vertices (size,) maps it onto itself."""
        mapped = self._codes(image[self.row], image[self.column])
        return np.array_equal(np.sort(self._codes(self.row, self.column)), np.sort(mapped))

    def _codes(self, row: Array, column: Array) -> Array:
        labels = int(self.label.max(initial=0)) + 1
        codes: Array = (row * self.size + column) * labels + self.label
        return codes

    def seen(self, colours: Array) -> list[bytes]:
        """What each vertex sees: its edges' labels and colours, sorted, as bytes."""
        many = int(colours.max(initial=0)) + 1
        what = self.label * many + colours[self.column]
        order = np.lexsort((what, self.row))
        what = what[order]
        bounds = np.searchsorted(self.row[order], np.arange(self.size + 1))
        return [what[bounds[i] : bounds[i + 1]].tobytes() for i in range(self.size)]

    def within(self, members: Array) -> Relation:
        """The same among some vertices only, which see nobody else, renumbered in their order."""
        places = np.full(self.size, -1)
        places[members] = np.arange(len(members))
        inside = places[self.row] >= 0
        row, column = places[self.row[inside]], places[self.column[inside]]
        order = np.argsort(row, kind="stable")
        return Relation(len(members), row[order], column[order], self.label[inside][order])

    def beside(self, other: Relation) -> Relation:
        """Both, side by side; the other's vertices come after."""
        return Relation(
            self.size + other.size,
            np.concatenate([self.row, other.row + self.size]),
            np.concatenate([self.column, other.column + self.size]),
            np.concatenate([self.label, other.label]),
        )


def stable(relations: Sequence[Relation], colours: Array) -> Array:
    """Colours of the vertices after looking around until nothing new is seen: the new colour is the
    old one with the labels and colours of all that is seen."""
    colours, many = numbered(colours.tolist())
    while many < len(colours):
        seen = [relation.seen(colours) for relation in relations]
        finer, now = numbered(list(zip(colours.tolist(), *seen, strict=True)))
        if now == many:
            break
        colours, many = finer, now
    return colours


def numbered(keys: Sequence[object]) -> tuple[Array, int]:
    """Keys as the numbers 0, 1, ... in the order in which they come up, and how many there are."""
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys]), len(numbers)
