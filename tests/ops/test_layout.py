"""Layouts: every allowed pair in exactly one tile, no other pair in any, and linear size."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import anyseq as aq
from anyseq.ops.layout.bands import Sizes
from anyseq.ops.layout.cover import cover
from anyseq.ops.layout.dense import dense
from anyseq.ops.layout.tiling import Layout, Pass, Run
from anyseq.patterns import Coarse, Pattern, Residue, Ring
from ops.cases import PATTERNS
from ops.expressions import expressions


def pairs(part: Pass, run: Run) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(tiles, height, width) each: the query, the key, and whether the pair is allowed."""
    shape = (run.tiles, run.height, run.width)
    tile, row = torch.arange(run.tiles)[:, None], torch.arange(run.height)
    rows = part.rows[run.first_row + tile * run.row_step + row]
    column = torch.arange(run.width)
    columns = part.columns[run.first_column + tile * run.column_step + column]
    allowed = torch.ones(shape, dtype=torch.bool)
    for patch in run.patches:
        assert set(patch.penalty.unique().tolist()) <= {0.0, float(torch.tensor(-1e30))}
        stop = patch.start + patch.penalty.shape[2]
        allowed[:, :, patch.start : stop] &= patch.penalty == 0
    return rows[:, :, None].expand(shape), columns[:, None, :].expand(shape), allowed


def counts(layout: Layout) -> torch.Tensor:
    """(queries, keys): in how many tiles each pair is allowed."""
    found = torch.zeros(layout.queries, layout.keys, dtype=torch.int64)
    for part in layout.passes:
        for run in part.runs:
            i, j, allowed = pairs(part, run)
            found.index_put_((i[allowed], j[allowed]), torch.tensor(1), accumulate=True)
    return found


def check(layout: Layout, pattern: Pattern, sizes: Sizes) -> None:
    mask = pattern.mask(sizes.span)
    rows = slice(sizes.q_offset, sizes.q_offset + sizes.queries)
    assert torch.equal(counts(layout), mask[rows, : sizes.keys].long())
    for part in layout.passes:
        # The kernel writes the rows of a pass tile by tile, and views instead of gathering.
        assert len(part.rows.unique()) == len(part.rows)
        assert part.picks_rows or torch.equal(part.rows, torch.arange(sizes.queries))
        assert part.picks_columns or torch.equal(part.columns, torch.arange(sizes.keys))
        seen = torch.zeros(len(part.rows), dtype=torch.int64)
        for run in part.runs:
            for tile in range(run.tiles):
                first = run.first_row + tile * run.row_step
                assert first >= 0
                assert first + run.height <= len(part.rows)
                seen[first : first + run.height] += 1
                first = run.first_column + tile * run.column_step
                assert first >= 0
                assert first + run.width <= len(part.columns)
            i, j, allowed = pairs(part, run)
            assert not run.whole or bool(allowed.all())
            if run.alike:  # terms by offset are looked up for the first tile only
                assert bool((i - j == (i - j)[:1]).all())
        assert bool((seen <= 1).all()), "a query in two tiles of a pass"


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
        check(cover(head, sizes), head, sizes)


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
    check(cover(pattern, sizes), pattern, sizes)


@pytest.mark.parametrize("pattern", [aq.Window(300), Residue(7), Ring(150), aq.Dilated(200, 3)])
def test_long_bands(pattern: Pattern) -> None:
    for sizes in (Sizes(1000, 1000, 0), Sizes(500, 1000, 500), Sizes(1100, 400, 0)):
        check(cover(pattern, sizes), pattern, sizes)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", SIZES, ids=lambda s: f"{s.queries}x{s.keys}+{s.q_offset}")
def test_whole_rows(sizes: Sizes, causal: bool) -> None:
    pattern = aq.Causal() if causal else aq.Full()
    for backward in (False, True):
        layout = dense(sizes, causal, backward)
        assert torch.equal(
            counts(layout),
            pattern.mask(sizes.span)[sizes.q_offset :][: sizes.queries, : sizes.keys].long(),
        )


def largest_tensor(layout: Layout) -> int:
    held = [x for part in layout.passes for x in (part.rows, part.columns)]
    held += [patch.penalty for part in layout.passes for run in part.runs for patch in run.patches]
    return max(x.numel() for x in held)


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
    short, long = (cover(pattern, Sizes(n, n, 0)) for n in (8192, 65536))
    assert long.area <= 8.5 * short.area
    assert short.area >= pattern.edges(8192).shape[1]
    assert largest_tensor(long) < 65536**2 / 1000
