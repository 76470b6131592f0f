"""Tiles for masks that depend on the offset i - j only, and for squares along the diagonal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from anyseq.ops.layout.tiling import Pass, Run, joined

_HEIGHTS = (16, 32, 64, 128)
_OVERHEAD = 6.0  # a score in a tile of h rows costs 1 + 6/h of one in a very high tile: measured


@dataclass(frozen=True)
class Sizes:
    """Queries at the positions q_offset, ..., q_offset + queries - 1, keys at 0, ..., keys - 1."""

    queries: int
    keys: int
    q_offset: int

    @property
    def span(self) -> int:
        """The length of the sequence that holds them all."""
        return max(self.keys, self.q_offset + self.queries)

    @property
    def queries_and_keys(self) -> tuple[int, int]:
        return self.queries, self.keys


def bands(offsets: torch.Tensor, sizes: Sizes) -> list[Pass]:
    """A pass for each interval of allowed offsets; offsets: (2·span-1,) bool, 1-span, ... first."""
    step, intervals = _intervals(offsets, sizes)
    return [_band(low, high, step, sizes) for low, high in intervals]


def band_count(offsets: torch.Tensor, sizes: Sizes) -> int:
    """How many passes `bands` would make."""
    return len(_intervals(offsets, sizes)[1])


def _intervals(offsets: torch.Tensor, sizes: Sizes) -> tuple[int, list[tuple[int, int]]]:
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
    borders = np.flatnonzero(np.diff(shifts) > _HEIGHTS[-1]) + 1
    return step, [(int(some[0]), int(some[-1])) for some in np.split(shifts, borders)]


def stretches(spans: Iterable[tuple[int, int, int, int]], sizes: Sizes) -> Pass:
    """Each stretch of positions i with a stretch of positions j: (first i, i after the last one,
    first j, j after the last one). No position i may be in two of them."""
    tiles = []
    begin, end = sizes.q_offset, sizes.q_offset + sizes.queries
    for i_first, i_last, j_first, j_last in spans:
        i_first, i_last = max(i_first, begin), min(i_last, end)
        j_first, j_last = max(j_first, 0), min(j_last, sizes.keys)
        if i_first >= i_last or j_first >= j_last:
            continue
        height = _best_height(j_last - j_first, i_last - i_first)
        for turn, i in enumerate(range(i_first, i_last, height)):
            tile = Run(i - begin, j_first, min(height, i_last - i), j_last - j_first)
            tiles.append((turn, tile, i - j_first))
    return in_order(_fewest(tiles), sizes)


def in_order(runs: tuple[Run, ...], sizes: Sizes) -> Pass:
    """A pass over all queries and keys as they stand."""
    rows, columns = torch.arange(sizes.queries), torch.arange(sizes.keys)
    return Pass(runs, rows, columns, picks_rows=False, picks_columns=False)


def _band(low: int, high: int, step: int, sizes: Sizes) -> Pass:
    """All pairs of equal residue mod step with low <= (i - j) / step <= high."""
    rows, columns, tiles = [], [], []
    height = _best_height(high - low, -(-sizes.queries // step))
    row, column = 0, 0
    for residue in range(step):
        # The positions residue + step·a: queries have first <= a < last, keys 0 <= a < end.
        first = max(0, -(-(sizes.q_offset - residue) // step))
        last = max(first, -(-(sizes.q_offset + sizes.queries - residue) // step))
        end = max(0, -(-(sizes.keys - residue) // step))
        for turn, (a, bottom) in enumerate(_cuts(first, last, high, end + low, height)):
            left, right = max(0, a - high), min(end, bottom - low)
            if left < right:
                tile = Run(row + a - first, column + left, bottom - a, right - left)
                tiles.append((turn, tile, (a - left) * step))
        rows.append(torch.arange(first, last) * step + residue - sizes.q_offset)
        columns.append(torch.arange(end) * step + residue)
        row, column = row + last - first, column + end
    runs = _fewest(tiles)
    if step == 1:
        return in_order(runs, sizes)
    return Pass(runs, torch.cat(rows), torch.cat(columns))


def _fewest(tiles: list[tuple[int, Run, int]]) -> tuple[Run, ...]:
    """Runs of tiles, each with its turn within its sequence or stretch and the offset of its first
    entry: neighbours may be alike within one, or from one to the next."""
    within = joined((tile, offset) for _, tile, offset in tiles)
    across = joined((tile, offset) for _, tile, offset in sorted(tiles, key=lambda t: t[0]))
    return min(within, across, key=len)


def _cuts(first: int, last: int, full: int, thin: int, height: int) -> Iterator[tuple[int, int]]:
    """Tiles of the rows first, ..., last - 1, as (first row, row after the last one).

    Rows full, ..., thin - 1 see the whole width of the band and get equal tiles. The rows before
    and after them see less, each tile something else: fewer and higher tiles are better there.
    """
    tallest = _HEIGHTS[-1]
    full = min(max(first, full), last)
    thin = full + (max(full, min(thin, last)) - full) // height * height
    for start, stop, step in ((first, full, tallest), (full, thin, height), (thin, last, tallest)):
        for row in range(start, stop, step):
            yield row, min(row + step, stop)


def _best_height(reach: int, rows: int) -> int:
    """The tile height for which rows x (reach + height) scores take the least time."""
    if rows <= _HEIGHTS[-1]:
        return max(1, rows)
    return min(_HEIGHTS, key=lambda height: (reach + height) * (1 + _OVERHEAD / height))
