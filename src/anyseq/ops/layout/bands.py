"""Rectangles for masks that depend on the offset i - j only, and for squares along the diagonal."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from anyseq.ops.layout.tiling import LOOKED_AT, Grain, Rectangle, Sizes, Sketch


def bands(offsets: torch.Tensor, sizes: Sizes, grain: Grain) -> list[Sketch]:
    """A pass for each interval of allowed offsets; offsets: (2·span-1,) bool, 1-span, ... first."""
    step, intervals = _intervals(offsets, sizes, grain)
    return [_band(low, high, step, sizes, grain) for low, high in intervals]


def band_count(offsets: torch.Tensor, sizes: Sizes, grain: Grain) -> int:
    """How many passes `bands` would make."""
    return len(_intervals(offsets, sizes, grain)[1])


def _intervals(
    offsets: torch.Tensor, sizes: Sizes, grain: Grain
) -> tuple[int, list[tuple[int, int]]]:
    """(s, the intervals of allowed offsets divided by s).

    With s the greatest common divisor of the allowed offsets, the positions of equal residue mod s
    form a shorter sequence each, in which offsets are divided by s. Intervals are further apart
    than any tile is high: no tile of one meets another.
    """
    allowed = offsets.nonzero()[:, 0].numpy() - (sizes.span - 1)
    # Offsets that no pair has need no tiles.
    low, high = sizes.q_offset - sizes.keys, sizes.q_offset + sizes.queries
    allowed = allowed[(low < allowed) & (allowed < high)]
    if not len(allowed):
        return 1, []
    step = int(np.gcd.reduce(allowed)) or 1
    shifts = allowed // step
    borders = np.flatnonzero(np.diff(shifts) > grain.height) + 1
    return step, [(int(some[0]), int(some[-1])) for some in np.split(shifts, borders)]


def stretches(spans: Iterable[tuple[int, int, int, int]], sizes: Sizes) -> Sketch:
    """Each stretch of positions i with a stretch of positions j: (first i, i after the last one,
    first j, j after the last one). No position i may be in two of them."""
    found = []
    begin, end = sizes.q_offset, sizes.q_offset + sizes.queries
    for i_first, i_last, j_first, j_last in spans:
        i_first, i_last = max(i_first, begin), min(i_last, end)
        j_first, j_last = max(j_first, 0), min(j_last, sizes.keys)
        if i_first < i_last and j_first < j_last:
            wide = j_last - j_first
            step = max(1, LOOKED_AT // wide)
            found += [
                Rectangle(i - begin, min(step, i_last - i), j_first, wide)
                for i in range(i_first, i_last, step)
            ]
    return Sketch(found, step=1)


def _band(low: int, high: int, step: int, sizes: Sizes, grain: Grain) -> Sketch:
    """All pairs of equal residue mod step with low <= (i - j) / step <= high."""
    rows, columns, found = [], [], []
    height = grain.best_height(high - low)
    row, column = 0, 0
    for residue in range(step):
        # The positions residue + step·a: queries have first <= a < last, keys 0 <= a < end.
        first = max(0, -(-(sizes.q_offset - residue) // step))
        last = max(first, -(-(sizes.q_offset + sizes.queries - residue) // step))
        end = max(0, -(-(sizes.keys - residue) // step))
        for a in range(first, last, height):
            bottom = min(a + height, last)
            left, right = max(0, a - high), min(end, bottom - low)
            if left < right:
                found.append(Rectangle(row + a - first, bottom - a, column + left, right - left))
        rows.append(torch.arange(first, last) * step + residue - sizes.q_offset)
        columns.append(torch.arange(end) * step + residue)
        row, column = row + last - first, column + end
    if step == 1:
        return Sketch(found, step=1)
    return Sketch(found, torch.cat(rows), torch.cat(columns), step)
