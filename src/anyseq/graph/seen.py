"""What a head of a design shows to some vertices, through its probability map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from anyseq.graph.edges import Array
from anyseq.graph.tables import LabelledEdges, Tables

Rule = Callable[[Tables, Array], list[bytes]]
"""Tables and old colours -> what each vertex gets; equal bytes = not told apart."""


@dataclass(frozen=True, eq=False)
class Seen:
    """A head (`anyseq.graph.rounds`): labelled edges, and what the head gets from the tables."""

    edges: LabelledEdges
    rule: Rule

    @property
    def row(self) -> Array:
        return self.edges.row

    @property
    def column(self) -> Array:
        return self.edges.column

    def seen(self, colours: Array, looking: Array) -> list[bytes]:
        """The rule in the graph of their edges alone: attending vertices first, then those attended
        to."""
        edges = self.edges
        mine = np.isin(edges.row, looking)
        row, column = edges.row[mine], edges.column[mine]
        others = np.setdiff1d(column[column < edges.size], looking)
        inside = np.append(looking, others)
        places = np.full(edges.size + 1, len(inside))  # that of a sink
        places[inside] = np.arange(len(inside))
        few = replace(
            edges,
            size=len(inside),
            row=places[row],
            column=places[column],
            kind=edges.kind[mine],
        )
        names = np.unique(colours[inside], return_inverse=True)[1].ravel()
        return self.rule(Tables.of(few, names), names)[: len(looking)]
