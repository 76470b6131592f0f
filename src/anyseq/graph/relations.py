"""Labelled graphs, and the colours that refinement gives their vertices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anyseq.graph.edges import Array
from anyseq.graph.rounds import rounds


@dataclass(frozen=True, eq=False)
class Relation:
    """Which vertex attends to which, with a label: in edge e row[e] attends to column[e] with
    label[e]. All (edges,) int64, sorted by row."""

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

    def seen(self, colours: Array, looking: Array) -> list[bytes]:
        """For each attending vertex, the labels and colours of its edges, sorted, as bytes."""
        starts, ends = (np.searchsorted(self.row, looking, side) for side in ("left", "right"))
        degrees = ends - starts
        bounds = np.append(0, np.cumsum(degrees))
        mine = np.arange(bounds[-1]) + np.repeat(starts - bounds[:-1], degrees)
        what = self.label[mine] * (int(colours.max()) + 1) + colours[self.column[mine]]
        what = what[np.lexsort((what, np.repeat(np.arange(len(looking)), degrees)))]
        return [what[bounds[i] : bounds[i + 1]].tobytes() for i in range(len(looking))]

    def within(self, members: Array) -> Relation:
        """The same among some vertices only, which attend to no others, renumbered in their
        order."""
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
    """Colours of the vertices refined until nothing changes: the new colour is the old one with the
    labels and colours of all vertices attended to."""
    return rounds([relations], colours)[0]
