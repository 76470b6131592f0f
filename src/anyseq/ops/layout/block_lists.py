"""Rectangles for patterns of which only the blocks are known: each block of rows with its list of
key blocks, gathered side by side; and for those that say themselves which keys some rows need."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from anyseq.ops.layout.tiling import LOOKED_AT, Rectangle, Sizes, Sketch
from anyseq.patterns import Pattern
from anyseq.patterns.blocks import classify

_GATHERED = 1 << 15  # keys that are gathered in a pass, which bounds the extra memory

_Patch = tuple[torch.Tensor, torch.Tensor, bool]
"""Rows, the columns that they attend to, and whether each attends to all of these."""


def block_lists(pattern: Pattern, sizes: Sizes) -> list[Sketch]:
    """Rows that attend to most blocks take all keys as they are; the others gather theirs."""
    size, span = pattern.grain, sizes.span
    bounds = classify(pattern.blocks(span, size), pattern.at(span), span, size)
    some, full = bounds.some_sure, bounds.all_sure
    key_blocks = -(-sizes.keys // size)
    gathered: list[_Patch] = []
    crowded = []
    for block in range(sizes.q_offset // size, -(-(sizes.q_offset + sizes.queries) // size)):
        first = max(block * size, sizes.q_offset) - sizes.q_offset
        rows = torch.arange(first, min((block + 1) * size - sizes.q_offset, sizes.queries))
        seen = some[block, :key_blocks].nonzero()[:, 0]
        if len(seen) > key_blocks // 2:
            crowded.append(rows)
        elif len(seen):
            columns = (seen[:, None] * size + torch.arange(size)).flatten()
            whole = bool(full[block, seen].all())
            gathered.append((rows, columns[columns < sizes.keys], whole))
    passes = _gathers(gathered)
    if crowded:
        passes += rectangles(torch.cat(crowded), None, sizes)
    return passes


def rectangles(
    rows: torch.Tensor | None, columns: torch.Tensor | None, sizes: Sizes
) -> list[Sketch]:
    """Some rows with some columns; None stands for all."""
    count = sizes.queries if rows is None else len(rows)
    width = sizes.keys if columns is None else len(columns)
    if count == 0 or width == 0:
        return []
    height = max(1, LOOKED_AT // width)
    found = [Rectangle(row, min(height, count - row), 0, width) for row in range(0, count, height)]
    return [Sketch(found, rows, columns)]


def patches(found: Iterable[tuple[torch.Tensor, torch.Tensor]], sizes: Sizes) -> list[Sketch]:
    """Some positions i each with some positions j, all of which are gathered. No position i may be
    in two of them."""
    tiles: list[_Patch] = []
    for i, j in found:
        rows, columns = i - sizes.q_offset, j[j < sizes.keys]
        rows = rows[(rows >= 0) & (rows < sizes.queries)]
        if len(rows) and len(columns):
            height = max(1, LOOKED_AT // len(columns))
            tiles += [(some, columns, False) for some in rows.split(height)]
    return _gathers(tiles)


def _gathers(tiles: list[_Patch]) -> list[Sketch]:
    """A pass for as many tiles as may be gathered in one go."""
    passes, some, keys = [], [], 0
    for tile in tiles:
        some.append(tile)
        keys += len(tile[1])
        if keys >= _GATHERED:
            passes.append(_gather(some))
            some, keys = [], 0
    return [*passes, _gather(some)] if some else passes


def _gather(tiles: list[_Patch]) -> Sketch:
    found, row, column = [], 0, 0
    for rows, columns, whole in tiles:
        found.append(Rectangle(row, len(rows), column, len(columns), whole))
        row, column = row + len(rows), column + len(columns)
    return Sketch(
        found, torch.cat([rows for rows, _, _ in tiles]), torch.cat([keys for _, keys, _ in tiles])
    )
