"""Rooted isomorphisms, by colours and, where those leave a choice, by trying."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anyseq.base import check_time
from anyseq.graph.edges import Array
from anyseq.graph.relations import Relation, stable

_TRIES = 400


class GivenUp(Exception):
    """The search has too many choices."""


def find(relations: Sequence[Relation], begin: Array, i: int, other: int) -> dict[int, int] | None:
    """An isomorphism of what reaches i onto what reaches `other` that maps i to `other`, or None.

    begin: (size,) colours that it keeps.
    """
    return _find(relations, begin, _closed(relations, i), _closed(relations, other), (i, other))


def find_within(
    relations: Sequence[Relation], begin: Array, place: int, pair: tuple[int, int]
) -> dict[int, int] | None:
    """An isomorphism of what reaches a place onto itself that maps one vertex of it to another."""
    ours = _closed(relations, place)
    return _find(relations, begin, ours, ours, pair) if np.isin(pair, ours).all() else None


def _find(
    relations: Sequence[Relation], begin: Array, ours: Array, theirs: Array, pair: tuple[int, int]
) -> dict[int, int] | None:
    if len(ours) != len(theirs):
        return None
    both = [one.within(ours).beside(one.within(theirs)) for one in relations]
    colours = np.concatenate([begin[ours], begin[theirs]])
    search = _Search(both, ours, theirs)
    root = (int(np.searchsorted(ours, pair[0])), int(np.searchsorted(theirs, pair[1])))
    found = search.extend(colours, root)
    if found is None:
        return None
    return {int(ours[u]): int(theirs[v]) for u, v in enumerate(found)}


def _closed(relations: Sequence[Relation], i: int) -> Array:
    """The vertices that reach i: those it attends to, those that these attend to, and so on."""
    inside = np.zeros(relations[0].size, dtype=bool)
    inside[i] = True
    while True:
        before = inside.sum()
        for relation in relations:
            inside[relation.column[inside[relation.row]]] = True
        if inside.sum() == before:
            return np.flatnonzero(inside)


class _Search:
    """Two graphs of `size` vertices each, side by side. ours, theirs: (size,) their names."""

    def __init__(self, relations: Sequence[Relation], ours: Array, theirs: Array) -> None:
        self.relations, self.ours, self.theirs = relations, ours, theirs
        self.size, self.left = len(ours), _TRIES

    def extend(self, colours: Array, pair: tuple[int, int]) -> Array | None:
        """(size,) the image of each vertex of the first graph, with u going to v, or None."""
        check_time()
        if self.left == 0:
            raise GivenUp
        self.left -= 1
        u, v = pair
        marked = colours * 2
        if marked[u] != marked[self.size + v]:
            return None
        marked[u] += 1
        marked[self.size + v] += 1
        marked = stable(self.relations, marked)
        first, second = marked[: self.size], marked[self.size :]
        if not np.array_equal(np.sort(first), np.sort(second)):
            return None
        # Equal stable colours, one vertex each: edges of u map to those of its image, and the guess
        # is right.
        image = self._guess(first, second)
        if self._fits(image):
            return image
        numbers, counts = np.unique(first, return_counts=True)
        cell = numbers[counts > 1][np.argmin(counts[counts > 1])]
        chosen = int(np.flatnonzero(first == cell)[0])
        for candidate in np.flatnonzero(second == cell).tolist():
            found = self.extend(marked, (chosen, candidate))
            if found is not None:
                return found
        return None

    def _guess(self, first: Array, second: Array) -> Array:
        """A map that keeps colours: vertices that may stay where they are do, others in order. Few
        move where two branches of a graph with many symmetries change places."""
        place = np.full(max(self.ours.max(), self.theirs.max()) + 1, -1)
        place[self.theirs] = np.arange(self.size)
        image: Array = place[self.ours]
        image[(image >= 0) & (second[image] != first)] = -1
        moved, free = np.flatnonzero(image < 0), np.setdiff1d(np.arange(self.size), image)
        image[moved[np.argsort(first[moved], kind="stable")]] = free[
            np.argsort(second[free], kind="stable")
        ]
        return image

    def _fits(self, image: Array) -> bool:
        both = np.concatenate([self.size + image, np.argsort(image)])
        return all(relation.keeps(both) for relation in self.relations)
