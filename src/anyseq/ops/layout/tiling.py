"""Where the pairs (i, j) of a pattern lie, as rectangles of rows and columns.

A *tile* is a block of scores: `height` queries times `width` keys. A *run* is a series of equal
tiles at equal distances, so that one batched matrix product computes many of them on views, without
a copy. A *pass* is a list of runs over queries and keys put in some order. A *layout* is a list of
passes in which every allowed pair lies in exactly one tile, and every other pair is masked or in
none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch

CHUNK = 1 << 19
"""The most scores of a run, unless a single tile has more: measured; the few arrays of that size in
flight share the level-2 caches."""

FORBIDDEN = -1e30
"""The score of a pair that is not allowed: finite, so that sums and differences stay numbers, and
so low that its weight is an exact 0 beside any score that is allowed."""


@dataclass(frozen=True)
class Patch:
    """Columns start, start + 1, ... of a run's tiles that hold forbidden pairs.

    penalty: (1 or tiles, height, columns) float32, added to the scores: FORBIDDEN for those pairs,
    0 elsewhere; one for all tiles if they are alike.
    """

    start: int
    penalty: torch.Tensor

    def tiles(self, first: int, count: int) -> Patch:
        """The same for some of the tiles."""
        if len(self.penalty) == 1:
            return self
        return Patch(self.start, self.penalty[first : first + count])


@dataclass(frozen=True)
class Run:
    """Tile t has the rows first_row + t·row_step + (0, ..., height-1) and the columns
    first_column + t·column_step + (0, ..., width-1), both counted in the order of the pass.

    alike: the offsets i - j are the same in every tile. whole: no pair is forbidden.
    """

    first_row: int
    first_column: int
    height: int
    width: int
    tiles: int = 1
    row_step: int = 0
    column_step: int = 0
    alike: bool = True
    whole: bool = False
    patches: tuple[Patch, ...] = ()

    @property
    def area(self) -> int:
        """The number of scores."""
        return self.tiles * self.height * self.width

    def chunks(self, scores: int) -> Iterator[Run]:
        """The run cut into runs of at most that many scores each (but at least one tile)."""
        count = max(1, scores // (self.height * self.width))
        for first in range(0, self.tiles, count):
            some = min(count, self.tiles - first)
            yield replace(
                self,
                first_row=self.first_row + first * self.row_step,
                first_column=self.first_column + first * self.column_step,
                tiles=some,
                patches=tuple(patch.tiles(first, some) for patch in self.patches),
            )

    def of_rows(self, x: torch.Tensor) -> torch.Tensor:
        """(tiles, height, ...) the rows of x (N, ...), contiguous, as a view."""
        return _view(x, self.first_row, self.tiles, self.row_step, self.height)

    def of_columns(self, x: torch.Tensor, first: int = 0, count: int | None = None) -> torch.Tensor:
        """(tiles, width, ...) the columns of x (M, ...), contiguous, as a view that may overlap; or
        only `count` of each tile's columns, from `first` on."""
        size = self.width if count is None else count
        return _view(x, self.first_column + first, self.tiles, self.column_step, size)


@dataclass(frozen=True)
class Pass:
    """Runs over the queries `rows` (R,) and the keys `columns` (C,), int64, counted from 0.

    No query is in two tiles; keys may repeat. picks_rows, picks_columns: they are not simply all,
    in order. backward: the rows are all the queries, the last one first.
    """

    runs: tuple[Run, ...]
    rows: torch.Tensor
    columns: torch.Tensor
    picks_rows: bool = True
    picks_columns: bool = True
    backward: bool = False

    @property
    def area(self) -> int:
        """The number of scores."""
        return sum(run.area for run in self.runs)

    @property
    def rows_in_tiles(self) -> int:
        """The number of queries that lie in some tile."""
        return sum(run.tiles * run.height for run in self.runs)

    def chunked(self) -> Pass:
        """The same with runs of at most CHUNK scores."""
        return replace(self, runs=tuple(part for run in self.runs for part in run.chunks(CHUNK)))

    def to(self, device: torch.device) -> Pass:
        """The same with its indices and penalties there."""
        runs = tuple(
            replace(
                run,
                patches=tuple(Patch(one.start, one.penalty.to(device)) for one in run.patches),
            )
            for run in self.runs
        )
        return replace(self, runs=runs, rows=self.rows.to(device), columns=self.columns.to(device))


@dataclass(frozen=True)
class Layout:
    """The passes of one pattern, for `queries` rows and `keys` columns."""

    passes: tuple[Pass, ...]
    queries: int
    keys: int

    @cached_property
    def begins_full(self) -> bool:
        """Whether the first pass has a tile for every query, in order."""
        if not self.passes or self.passes[0].picks_rows:
            return False
        return self.passes[0].rows_in_tiles == self.queries

    @property
    def area(self) -> int:
        """The number of scores that are computed, forbidden ones within tiles included."""
        return sum(part.area for part in self.passes)

    def to(self, device: torch.device) -> Layout:
        """The same with its indices and penalties there."""
        return replace(self, passes=tuple(part.to(device) for part in self.passes))


def _view(x: torch.Tensor, first: int, tiles: int, step: int, size: int) -> torch.Tensor:
    strides = x.stride()
    start = x.storage_offset() + first * strides[0]
    return x.as_strided((tiles, size, *x.shape[1:]), (step * strides[0], *strides), start)


def joined(tiles: Iterable[tuple[Run, int]]) -> tuple[Run, ...]:
    """Runs of single tiles, each with the offset i - j of its first entry, in the given order:
    equal neighbours at equal distances are joined."""
    runs: list[Run] = []
    offsets: list[int] = []
    for tile, offset in tiles:
        last = runs[-1] if runs else None
        if last is not None and offset == offsets[-1]:
            longer = _extended(last, tile)
            if longer is not None:
                runs[-1] = longer
                continue
        runs.append(tile)
        offsets.append(offset)
    return tuple(runs)


def _extended(run: Run, tile: Run) -> Run | None:
    """The run with one more tile, if it fits."""
    if (run.height, run.width, run.whole) != (tile.height, tile.width, tile.whole):
        return None
    rows, columns = tile.first_row - run.first_row, tile.first_column - run.first_column
    steps = (rows, columns) if run.tiles == 1 else (run.row_step, run.column_step)
    if (rows, columns) != (run.tiles * steps[0], run.tiles * steps[1]) or steps[1] <= 0:
        return None
    return replace(run, tiles=run.tiles + 1, row_step=steps[0], column_step=steps[1])
