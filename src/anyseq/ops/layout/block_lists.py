"""Tiles for patterns of which only the blocks are known: each block of rows with its list of key
blocks, gathered side by side."""

from __future__ import annotations

import torch

from anyseq.ops.layout.bands import Sizes
from anyseq.ops.layout.tiling import CHUNK, Pass, Run, joined
from anyseq.patterns import Pattern
from anyseq.patterns.blocks import classify

_GATHERED = 1 << 15  # keys that are gathered at a time, which bounds the extra memory

_HEIGHT = 128  # of a tile with many columns


def block_lists(pattern: Pattern, sizes: Sizes) -> list[Pass]:
    """Rows that look at most blocks take all keys as they stand; the others gather theirs."""
    size, span = pattern.grain, sizes.span
    bounds = classify(pattern.blocks(span, size), pattern.at(span), span, size)
    some, full = bounds.some_sure, bounds.all_sure
    key_blocks = -(-sizes.keys // size)
    passes, gathered, crowded = [], [], []
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
    # Equal tiles side by side become one run.
    gathered.sort(key=lambda tile: (len(tile[0]), len(tile[1]), tile[2]))
    while gathered:
        count = total = 0
        while count < len(gathered) and (count == 0 or total < _GATHERED):
            total += len(gathered[count][1])
            count += 1
        passes.append(_gather(gathered[:count]))
        gathered = gathered[count:]
    if crowded:
        passes += rectangles(torch.cat(crowded), None, sizes)
    return passes


def rectangles(rows: torch.Tensor | None, columns: torch.Tensor | None, sizes: Sizes) -> list[Pass]:
    """Some rows with some columns; None stands for all. A query may be in one tile of a pass only,
    so that rows with too many columns for a tile take several passes."""
    count = sizes.queries if rows is None else len(rows)
    width = sizes.keys if columns is None else len(columns)
    if count == 0 or width == 0:
        return []
    height = min(count, max(_HEIGHT, CHUNK // width))
    step = min(width, CHUNK // height)
    return [
        Pass(
            tuple(
                Run(row, first, min(height, count - row), min(step, width - first))
                for row in range(0, count, height)
            ),
            torch.arange(count) if rows is None else rows,
            torch.arange(width) if columns is None else columns,
            picks_rows=rows is not None,
            picks_columns=columns is not None,
        )
        for first in range(0, width, step)
    ]


def _gather(tiles: list[tuple[torch.Tensor, torch.Tensor, bool]]) -> Pass:
    runs, row, column = [], 0, 0
    for rows, columns, whole in tiles:
        runs.append((Run(row, column, len(rows), len(columns), alike=False, whole=whole), 0))
        row, column = row + len(rows), column + len(columns)
    return Pass(
        joined(runs),
        torch.cat([rows for rows, _, _ in tiles]),
        torch.cat([columns for _, columns, _ in tiles]),
    )
