"""Top-k's keys against heads: two vertices have equal keys iff no scores tell them apart."""

from __future__ import annotations

from unittest import mock

import hypothesis.strategies as st
import numpy as np
import torch
from hypothesis import given, settings

from anyseq.graph import level_sets
from anyseq.graph.level_sets import least_level_set
from anyseq.graph.tables import LabelledEdges, Tables
from anyseq.graph.top import by_labels, by_slopes
from anyseq.probability import TopK

HEADS = 4000

table = st.integers(1, 3).flatmap(
    lambda labels: st.lists(
        st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=labels, max_size=labels
    )
)


def pair(counts: list[np.ndarray]) -> Tables:
    """Vertices 0 and 1, of colour 0, have counts[i][r, c] keys of label r and colour c + 1."""
    labels, colours = counts[0].shape
    entries = [
        (i, 2 + c, r)
        for i, many in enumerate(counts)
        for r, c in np.argwhere(many)
        for _ in range(many[r, c])
    ]
    row, column, kind = (np.array(side) for side in zip(*entries, strict=True))
    number = np.arange(labels)
    edges = LabelledEdges(2 + colours, row, column, kind, number, 0 * number)
    return Tables.of(edges, np.append([0, 0], 1 + np.arange(colours)))


def differ(counts: list[np.ndarray], k: int, seed: int, *, sloped: bool) -> bool:
    """Whether some random head sees different shares of colours; half of them let scores tie."""
    rng = torch.Generator().manual_seed(seed)
    labels, colours = counts[0].shape

    def draw(*shape: int) -> torch.Tensor:
        whole = torch.randint(-3, 4, (HEADS, *shape), generator=rng).double()
        part = torch.randint(0, 4, (HEADS, *shape), generator=rng) / 4
        return whole + torch.where(torch.arange(HEADS).view(-1, 1, 1) % 2 == 0, 0.0, part)

    if sloped:
        slope = 2.0 ** -torch.randint(0, 3, (HEADS, 1, 1), generator=rng).double()
        scores = slope * (draw(1, colours) - torch.arange(labels)[:, None])
    else:
        scores = draw(1, colours) + draw(labels, 1)
    shares = []
    for many in counts:
        each = torch.from_numpy(many).flatten()
        keys = scores.flatten(1).repeat_interleave(each, dim=1)
        colour = torch.arange(colours).repeat(labels).repeat_interleave(each)
        weights = TopK(k)(keys)
        shares.append(torch.stack([weights[:, colour == c].sum(1) for c in range(colours)], 1))
    return bool((shares[0] - shares[1]).abs().max() > 1e-9)


def both(one: list[list[int]], other: list[list[int]]) -> list[np.ndarray]:
    """Tables of one shape."""
    labels = max(len(one), len(other))
    return [np.array(t + [[0, 0, 0]] * (labels - len(t))) for t in (one, other)]


def like(one: list[list[int]], data: st.DataObject) -> list[list[int]]:
    """A table that is hard to tell from this one: a multiple, of rank one with the same shares,
    with a key more or moved, or any."""
    array = np.array(one)
    match data.draw(st.integers(0, 3)):
        case 0:
            array = array * data.draw(st.integers(2, 3))
        case 1:
            labels = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
            array = np.outer(labels, array[0])
        case 2:
            array = np.roll(array, 1, axis=0)
        case _:
            return data.draw(table)
    cells: list[list[int]] = array.tolist()
    return cells


@given(table, st.data(), st.integers(2, 7), st.booleans())
@settings(max_examples=400, deadline=None)
def test_keys_are_exact(one: list[list[int]], data: st.DataObject, k: int, sloped: bool) -> None:
    if data.draw(st.booleans()):
        one = np.outer(np.array(one)[:, 0], one[0]).tolist()
    counts = both(one, like(one, data))
    if not all(many.any() for many in counts):
        return
    tables, colours = pair(counts), np.array([0, 0, 1, 2, 3])
    if sloped:
        keys = by_slopes(tables, colours, np.arange(len(counts[0])), k)
        assert (keys[0] != keys[1]) == differ(counts, k, 0, sloped=True), (counts, k)
    else:
        keys = by_labels(tables, colours, k)
        assert (keys[0] != keys[1]) == differ(counts, k, 0, sloped=False), (counts, k)


cells = st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=2, max_size=4)


@given(cells, st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_least_level_set(table: list[list[int]], enough: int) -> None:
    """Against scores drawn at random."""
    array = np.array(table)
    rng = np.random.default_rng(0)
    alpha, beta = rng.random((4000, 1, 3)), rng.random((4000, len(table), 1))
    sums = ((alpha + beta >= rng.random((4000, 1, 1)) * 2) * array).sum((1, 2))
    sums = sums[(sums >= enough) & (sums < array.sum())]
    assert least_level_set(table, enough) == min(sums, default=-1)


@given(
    st.integers(4, 6).flatmap(
        lambda rows: st.lists(
            st.lists(st.sampled_from([0, 0, 5, 7, 8]), min_size=rows, max_size=rows),
            min_size=rows,
            max_size=rows,
        )
    ),
    st.integers(1, 120),
)
@settings(max_examples=40, deadline=None)
def test_search_finds_what_all_orders_find(table: list[list[int]], enough: int) -> None:
    expected = least_level_set(table, enough)
    with mock.patch.multiple(level_sets, _MOST_ORDERED=0, _DRAWN=0):
        assert least_level_set(table, enough) == expected


def test_a_vertex_with_many_labels_and_colours_is_decided() -> None:
    ones = np.ones((7, 7), dtype=int)
    colours = np.array([0, 0, *range(1, 8)])
    for k, apart in ((2, True), (3, True), (98, False)):
        keys = by_labels(pair([ones, 2 * ones]), colours, k)
        assert (keys[0] != keys[1]) == apart
