"""Rounds of refinement: in each layer a vertex combines its colour with those it attends to.

A class that is split leaves its number to one part. A vertex that attends to none of the parts with
new numbers gets what it got when this layer came last, up to names; so one of all such vertices of
a class is computed, and the others follow it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from anyseq.base import check_time
from anyseq.graph.edges import Array


class Head(Protocol):
    """Which vertex attends to which. row: (edges,) the attending vertices; column: the vertices
    attended to, or the number of vertices for a sink."""

    @property
    def row(self) -> Array: ...

    @property
    def column(self) -> Array: ...

    def seen(self, colours: Array, looking: Array) -> list[bytes]:
        """What each of the vertices `looking` gets from the colours; equal bytes = not told apart.
        Names do not matter: other numbers for the colours tell the same vertices apart."""
        ...


def rounds(
    cycle: Sequence[Sequence[Head]], colours: Array, depth: int | None = None
) -> tuple[Array, int]:
    """The colours at the end, and the last layer that changed them. cycle: the heads of each layer,
    over and over; depth: the number of layers, None for as many as change something."""
    colours = np.unique(colours, return_inverse=True)[1].ravel()
    many = int(colours.max()) + 1
    before: list[Array | None] = [None] * len(cycle)
    layer = last = 0
    while layer < last + len(cycle) and many < len(colours) and layer != depth:
        check_time()
        heads, old = cycle[layer % len(cycle)], before[layer % len(cycle)]
        before[layer % len(cycle)] = colours
        layer += 1
        looking = _looking(heads, colours, old)
        if not len(looking):
            continue
        seen = [head.seen(colours, looking) for head in heads]
        colours, now = _split(colours, many, looking, list(zip(*seen, strict=True)))
        if now > many:
            many, last = now, layer
    return colours, last


def _looking(heads: Sequence[Head], colours: Array, old: Array | None) -> Array:
    """The vertices to compute: of classes of two and more those that attend to a new number, and
    the first one of the others of their class. old: the colours when they were computed last."""
    size = len(colours)
    touched = np.full(size, old is None)
    if old is not None:
        new = np.append(colours != old, False)  # what is no vertex keeps its colour
        for head in heads:
            touched[head.row[new[head.column]]] = True
    touched &= np.bincount(colours)[colours] > 1
    concerned = np.zeros(size, dtype=bool)
    concerned[colours[touched]] = True
    others = np.flatnonzero(~touched & concerned[colours])
    first = np.unique(colours[others], return_index=True)[1]
    return np.append(np.flatnonzero(touched), others[first])


def _split(
    colours: Array, many: int, looking: Array, seen: Sequence[tuple[bytes, ...]]
) -> tuple[Array, int]:
    """New numbers for the parts of each class but one: that of the vertices not computed, which
    follow the last one in `looking`; if all were computed, the largest."""
    classes: dict[int, dict[tuple[bytes, ...], list[int]]] = defaultdict(lambda: defaultdict(list))
    for i, colour, what in zip(looking.tolist(), colours[looking].tolist(), seen, strict=True):
        parts = classes[colour]
        parts[what] = parts.pop(what, [])  # the last one's part comes last
        parts[what].append(i)
    colours, sizes = colours.copy(), np.bincount(colours)
    for colour, parts in classes.items():
        ordered = list(parts.values())
        if sum(map(len, ordered)) == sizes[colour]:  # all have looked
            ordered.sort(key=len)
        for part in ordered[:-1]:
            colours[part] = many
            many += 1
    return colours, many
