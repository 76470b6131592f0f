"""Rounds that look only where something has changed, against all rows every time."""

from __future__ import annotations

from collections.abc import Callable

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings

from anyseq.graph.edges import Array
from anyseq.graph.relations import Relation, stable
from anyseq.graph.rounds import rounds
from anyseq.graph.seen import Seen
from anyseq.graph.tables import LabelledEdges, Tables


def numbered(keys: list[object]) -> tuple[Array, int]:
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys]), len(numbers)


def ratios(edges: LabelledEdges, colours: Array) -> list[bytes]:
    return Tables.of(edges, colours).ratios()


def neighbours(edges: LabelledEdges, colours: Array) -> list[bytes]:
    """What a Relation shows, labels being kinds."""
    seen: list[list[tuple[int, int]]] = [[] for _ in range(edges.size)]
    for row, column, kind in zip(edges.row, edges.column, edges.kind, strict=True):
        seen[row].append((int(kind), int(colours[column])))
    return [str(sorted(one)).encode() for one in seen]


def every_row(
    cycle: list[list[LabelledEdges]],
    colours: Array,
    depth: int | None,
    look: Callable[[LabelledEdges, Array], list[bytes]],
) -> tuple[Array, int]:
    colours, many = numbered(colours.tolist())
    layer = last = 0
    while layer < last + len(cycle) and many < len(colours) and layer != depth:
        seen = [look(edges, colours) for edges in cycle[layer % len(cycle)]]
        layer += 1
        finer, now = numbered(list(zip(colours.tolist(), *seen, strict=True)))
        if now > many:
            colours, many, last = finer, now, layer
    return colours, last


def graph(size: int, shape: str, kinds: int, sink: bool, rng: np.random.Generator) -> LabelledEdges:
    """Paths peel off one by one, copies of one random graph stay together."""
    if shape == "path":
        mask = np.abs(np.subtract.outer(np.arange(size), np.arange(size))) <= 1
    elif shape == "copies":
        part = rng.random((size // 3, size // 3)) < 2 / size
        mask = np.kron(np.eye(3, dtype=bool), part)
    else:
        mask = rng.random((size, size)) < 2 / size
    order = rng.permutation(len(mask))
    row, column = np.nonzero(mask[order][:, order])
    kind = rng.integers(kinds, size=len(row))
    if sink:
        row, column = np.append(row, order), np.append(column, np.full(len(mask), len(mask)))
        kind = np.append(kind, np.full(len(mask), kinds))
    number = np.arange(kinds + sink)
    by_row = np.argsort(row, kind="stable")
    return LabelledEdges(
        len(mask), row[by_row], column[by_row], kind[by_row], number // 2, number % 2
    )


@given(
    st.integers(0, 2**32),
    st.integers(3, 10),
    st.lists(
        st.lists(st.sampled_from(["path", "copies", "any"]), min_size=1, max_size=2),
        min_size=1,
        max_size=3,
    ),
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from([None, 2, 5]),
)
@settings(max_examples=150, deadline=None)
def test_rounds(
    seed: int, third: int, shapes: list[list[str]], kinds: int, sink: bool, depth: int | None
) -> None:
    rng = np.random.default_rng(seed)
    size = 3 * third
    cycle = [[graph(size, shape, kinds, sink, rng) for shape in heads] for heads in shapes]
    begin = np.zeros(size, dtype=np.int64)
    begin[: rng.integers(2)] = 1
    heads = [[Seen(edges, lambda tables, _: tables.ratios()) for edges in one] for one in cycle]
    colours, last = rounds(heads, begin, depth)
    expected, layer = every_row(cycle, begin, depth, ratios)
    assert last == layer
    assert np.array_equal(numbered(colours.tolist())[0], expected)
    if not sink:
        relations = [Relation(size, one.row, one.column, one.kind) for one in cycle[0]]
        expected, _ = every_row(cycle[:1], begin, None, neighbours)
        assert np.array_equal(numbered(stable(relations, begin).tolist())[0], expected)
