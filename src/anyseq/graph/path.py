"""A Hamiltonian path: an order of all tokens in which each token's successor attends to it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from time import monotonic

import numpy as np
import torch

from anyseq.base import OutOfTime, check_time, positive, remaining, within
from anyseq.design import Design
from anyseq.graph.edges import Array, Edges, edges_of, seen_by_any_head, vertices
from anyseq.graph.path_search import chain, exact, patched, too_few_neighbours
from anyseq.graph.path_solver import solved
from anyseq.patterns import Pattern

_EXACT_TOKENS = 16  # a bit for every set of tokens and every end


@dataclass(frozen=True, eq=False)
class Path:
    """Whether there is a γ with γ(t) in ∪ A_γ(t+1), over all patterns and heads, BOS left out.

    exists: None if it could not be decided in time.
    order: (tokens,) int64: order[t+1] attends to order[t].
    method: "natural order" (or its reverse), "exact" (all sets of tokens), "patching" (a cover by
        cycles, joined), "CP-SAT", "degrees" (tokens lack different neighbours), "components"
        (strongly connected components form no chain, or a chain of single tokens), "given up".
    message: what would help, where the search was given up.
    """

    exists: bool | None
    order: Array | None
    method: str
    message: str = ""


PATH_SECONDS = 8.0


def hamiltonian_path(design: Design, seconds: float = PATH_SECONDS) -> Path:
    """A Hamiltonian path of the union of a design's patterns; "no" comes from complete methods
    only: counting, components, all sets of up to 16 tokens, or a solver that finished."""
    with within(positive("seconds", seconds)):
        try:
            return _found(design)
        except OutOfTime:
            return Path(None, None, "given up", "not decided in time; give more seconds")


def _found(design: Design) -> Path:
    end = monotonic() + remaining()
    union = reduce(or_, (seen_by_any_head(pattern) for pattern in dict.fromkeys(design.cycle)))
    tokens = np.arange(design.tokens)
    for order in (tokens, tokens[::-1]):
        if _is_path(union, design, order):
            return Path(True, order.copy(), "natural order")
    edges = _without_bos(edges_of(union, vertices(design)), design.bos)
    place = chain(edges)
    if place is None:
        return Path(False, None, "components")
    if place.max(initial=0) == design.tokens - 1:
        return Path(True, np.argsort(place), "components")
    check_time()
    if too_few_neighbours(edges):
        return Path(False, None, "degrees")
    if design.tokens <= _EXACT_TOKENS:
        found = exact(edges)
        return Path(found is not None, found, "exact")
    found = patched(edges, end=monotonic() + (end - monotonic()) / 2)
    if found is not None:
        return Path(True, found, "patching")
    answer = solved(edges, end - monotonic())
    if answer.exists is None:
        return Path(None, None, "given up", answer.message)
    return Path(answer.exists, answer.order, "CP-SAT")


def _is_path(union: Pattern, design: Design, order: Array) -> bool:
    """Whether each token's successor attends to it, without the other edges."""
    place = torch.from_numpy(order + int(design.bos))
    zero = torch.zeros((), dtype=torch.int64)
    seen = union.at(vertices(design))(zero, zero, place[1:], place[:-1])
    return bool(seen.all())


def _without_bos(edges: Edges, bos: bool) -> Edges:
    """Edges between different tokens."""
    row, column = edges.rows(), edges.columns
    kept = (row != column) & (row >= bos) & (column >= bos)
    many = np.bincount(row[kept] - bos, minlength=edges.size - bos)
    starts = np.concatenate([[0], np.cumsum(many)])
    return Edges(starts, column[kept] - np.int32(bos))
