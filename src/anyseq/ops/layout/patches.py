"""What a pattern forbids within the tiles of a pass."""

from __future__ import annotations

from dataclasses import replace

import torch

from anyseq.ops.layout.bands import Sizes
from anyseq.ops.layout.tiling import FORBIDDEN, Pass, Patch, Run
from anyseq.patterns import Pattern

_ENTRIES = 1 << 22  # of a mask, evaluated in one go


def patched(part: Pass, pattern: Pattern, sizes: Sizes) -> Pass:
    """The pass with the pattern's patches; tiles lose outer columns, and runs are dropped, where
    nothing is allowed."""
    offsets = pattern.offsets(sizes.span)
    runs = []
    for run in part.runs:
        if run.whole:
            runs.append(run)
            continue
        if offsets is not None and run.alike:
            finished = _from_offsets(part, run, offsets, sizes)
        else:
            finished = _from_mask(run, _mask(part, run, pattern, sizes))
        if finished is not None:
            runs.append(finished)
    return replace(part, runs=tuple(runs))


def _positions(part: Pass, run: Run, sizes: Sizes) -> tuple[torch.Tensor, torch.Tensor]:
    """(tiles, height, 1) and (tiles, 1, width): where queries and keys stand."""
    i = run.of_rows(part.rows)[:, :, None] + sizes.q_offset
    return i, run.of_columns(part.columns)[:, None, :]


def _mask(part: Pass, run: Run, pattern: Pattern, sizes: Sizes) -> torch.Tensor:
    """(tiles, height, width) bool, or (1, height, width) if all tiles are the same."""
    mask_mod, zero = pattern.at(sizes.span), torch.zeros((), dtype=torch.int64)
    parts = []
    for chunk in run.chunks(_ENTRIES):
        shape = (chunk.tiles, chunk.height, chunk.width)
        mask = mask_mod(zero, zero, *_positions(part, chunk, sizes))
        parts.append(mask.expand(shape))
    mask = torch.cat(parts)
    return mask[:1] if (mask == mask[:1]).all() else mask


def _from_offsets(part: Pass, run: Run, offsets: torch.Tensor, sizes: Sizes) -> Run | None:
    """The patches of tiles that are alike. Where the rows are neighbours, the offsets in a column
    are an interval, so that sums over the allowed ones say at once which columns are mixed."""
    i, j = _positions(part, replace(run, tiles=1), sizes)
    zero = sizes.span - 1
    low, high = i.amin(1) - j[:, 0] + zero, i.amax(1) - j[:, 0] + zero
    if int((high - low)[0, 0]) != run.height - 1:
        return _from_mask(run, offsets[i - j + zero])
    sums = torch.nn.functional.pad(offsets.cumsum(0), (1, 0))
    count = (sums[high + 1] - sums[low])[0]
    mixed = ((count > 0) & (count < run.height)).nonzero()[:, 0]
    mask = (count > 0).expand(1, run.height, run.width)
    if len(mixed) == 0:
        return _from_mask(run, mask)
    first, last = int(mixed[0]), int(mixed[-1]) + 1
    inner = offsets[i - j[:, :, first:last] + zero]
    return _from_mask(run, torch.cat([mask[:, :, :first], inner, mask[:, :, last:]], dim=2))


def _from_mask(run: Run, mask: torch.Tensor) -> Run | None:
    """The run with what the mask (1 or tiles, height, width) forbids, or None if that is all."""
    some = mask.any(1).any(0).nonzero()[:, 0]
    if len(some) == 0:
        return None
    left, right = int(some[0]), int(some[-1]) + 1
    mask = mask[:, :, left:right]
    patches = tuple(
        Patch(start, torch.where(mask[:, :, start:stop], 0.0, FORBIDDEN))
        for start, stop in _mixed(mask.all(1).all(0))
    )
    return replace(run, first_column=run.first_column + left, width=right - left, patches=patches)


def _mixed(free: torch.Tensor) -> list[tuple[int, int]]:
    """Ranges of columns that hold all those that are not free: one before and one after the free
    columns in the middle, if these are all that is free between the first and the last of them."""
    width, places = len(free), free.nonzero()[:, 0]
    if len(places) == 0:
        return [(0, width)]
    first, last = int(places[0]), int(places[-1]) + 1
    if len(places) < last - first:
        return [(0, width)]
    return [(start, stop) for start, stop in ((0, first), (last, width)) if start < stop]
