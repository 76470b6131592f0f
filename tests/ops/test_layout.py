"""Layouts: every allowed pair in exactly one tile, no other pair in any, and linear size."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import anyseq as aq
from anyseq.ops import native, tiles
from anyseq.ops.layout import Grain, Layout, Pass, Sizes, Tile, cover
from anyseq.patterns import Coarse, Pattern, Residue, Ring
from ops.cases import PATTERNS
from ops.expressions import expressions

GRAINS = {"native": native.GRAIN, "tiles": tiles.GRAIN, "small": Grain(1.0, 16, 8)}


def pairs(part: Pass, tile: Tile) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(height, width) each: the query, the key, and whether the pair is allowed."""
    shape = (tile.height, tile.width)
    row, column = (
        torch.arange(first, first + count)
        for first, count in ((tile.row, tile.height), (tile.column, tile.width))
    )
    rows = row if part.rows is None else part.rows[row]
    columns = column if part.columns is None else part.columns[column]
    allowed = tile.allowed()
    allowed = torch.ones(shape, dtype=torch.bool) if allowed is None else allowed
    return rows[:, None].expand(shape), columns.expand(shape), allowed


def counts(layout: Layout, sizes: Sizes) -> torch.Tensor:
    """(queries, keys): in how many tiles each pair is allowed."""
    found = torch.zeros(sizes.queries, sizes.keys, dtype=torch.int64)
    for part in layout.passes:
        for tile in part.tiles:
            i, j, allowed = pairs(part, tile)
            found.index_put_((i[allowed], j[allowed]), torch.tensor(1), accumulate=True)
    return found


def check(pattern: Pattern, sizes: Sizes, grain: Grain) -> None:
    layout = cover(pattern, sizes, grain)
    mask = pattern.mask(sizes.span)
    rows = slice(sizes.q_offset, sizes.q_offset + sizes.queries)
    assert torch.equal(counts(layout, sizes), mask[rows, : sizes.keys].long())
    for part in layout.passes:
        # Kernels write the rows of a pass group by group.
        assert part.rows is None or len(part.rows.unique()) == len(part.rows)
        assert (part.row_count, part.column_count) == tuple(
            whole if order is None else len(order)
            for order, whole in ((part.rows, sizes.queries), (part.columns, sizes.keys))
        )
        owner = torch.full((part.row_count,), -1)
        for tile in part.tiles:
            own = owner[tile.row : tile.row + tile.height]
            assert bool(((own == -1) | (own == tile.row)).all()), "a query in two groups"
            assert bool((owner == tile.row).sum() in (0, tile.height)), "a group of two heights"
            own.fill_(tile.row)
            assert len(own) == tile.height <= grain.height
            assert 0 <= tile.column < tile.column + tile.width <= part.column_count
            assert tile.width <= grain.width
        assert [tile.row for tile in part.tiles] == sorted(tile.row for tile in part.tiles)


SIZES = [
    Sizes(1, 1, 0),
    Sizes(2, 2, 0),
    Sizes(64, 64, 0),
    Sizes(150, 150, 0),
    Sizes(300, 300, 0),
    Sizes(1, 200, 199),
    Sizes(70, 200, 130),
    Sizes(200, 70, 0),
    Sizes(40, 30, 50),
    Sizes(33, 200, 5),
]


@pytest.mark.parametrize("sizes", SIZES, ids=lambda s: f"{s.queries}x{s.keys}+{s.q_offset}")
@pytest.mark.parametrize("name", PATTERNS)
def test_every_pair_lies_in_one_tile(name: str, sizes: Sizes) -> None:
    pattern = PATTERNS[name](sizes.span)
    for head in pattern.heads():
        for grain in GRAINS.values():
            check(head, sizes, grain)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Pattern, Sizes]:
    queries, keys, q_offset = draw(st.integers(1, 200)), draw(st.integers(1, 200)), 0
    if draw(st.booleans()):
        q_offset = draw(st.integers(0, 60))
    sizes = Sizes(queries, keys, q_offset)
    return draw(expressions(sizes.span)), sizes


@settings(max_examples=100)
@given(cases())
def test_every_pair_of_any_expression_lies_in_one_tile(case: tuple[Pattern, Sizes]) -> None:
    pattern, sizes = case
    for grain in GRAINS.values():
        check(pattern, sizes, grain)


@pytest.mark.parametrize("pattern", [aq.Window(300), Residue(7), Ring(150), aq.Dilated(200, 3)])
def test_long_bands(pattern: Pattern) -> None:
    for sizes in (Sizes(1000, 1000, 0), Sizes(500, 1000, 500), Sizes(1100, 400, 0)):
        check(pattern, sizes, native.GRAIN)


@pytest.mark.parametrize("pattern", [aq.Full(), aq.Causal()], ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=lambda s: f"{s.queries}x{s.keys}+{s.q_offset}")
def test_whole_rows(sizes: Sizes, pattern: Pattern) -> None:
    for grain in GRAINS.values():
        check(pattern, sizes, grain)


def largest_array(layout: Layout) -> int:
    held = [x.numel() for part in layout.passes for x in (part.rows, part.columns) if x is not None]
    tiles = (tile for part in layout.passes for tile in part.tiles)
    held += [x.size for tile in tiles for x in (tile.bounds, tile.mask) if x is not None]
    return max(held, default=0)


@pytest.mark.parametrize(
    "pattern",
    [
        aq.Window(64),
        aq.Window(64) & aq.Causal(),
        aq.Dilated(16, 4),
        aq.Star(64),
        aq.Longformer(64, (0, 1)),
        aq.BigBird(64),
        aq.Blocks(64),
        Coarse(64, aq.Window(1)),
        Coarse(32, aq.Window(2) & aq.Causal()),
        Coarse(32, aq.Blocks(2)),
    ],
    ids=str,
)
def test_sparse_patterns_take_linear_space(pattern: Pattern) -> None:
    """8 times as long takes 8 times as much, and a little more at the borders."""
    short, long = (cover(pattern, Sizes(n, n, 0), native.GRAIN) for n in (8192, 65536))
    assert long.area <= 8.5 * short.area
    assert short.area >= pattern.edges(8192).shape[1]
    assert largest_array(long) < 65536**2 / 1000
