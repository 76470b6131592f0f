"""Where the pairs (i, j) of a pattern lie, as rectangles of rows and columns.

A *tile* is a block of scores: some queries times some keys. A *pass* is a list of tiles over
queries and keys put in some order; its tiles of the same rows are a *group*, and no query is in two
groups. A *layout* is a list of passes in which every allowed pair lies in exactly one tile, and
every other pair is masked or in none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch

LOOKED_AT = 1 << 22
"""Pairs of a rectangle at most, whose mask may have to be evaluated in one go."""


class Sizes(NamedTuple):
    """Queries at the positions q_offset, ..., q_offset + queries - 1, keys at 0, ..., keys - 1."""

    queries: int
    keys: int
    q_offset: int

    @property
    def span(self) -> int:
        """The length of the sequence that holds them all."""
        return max(self.keys, self.q_offset + self.queries)


class Grain(NamedTuple):
    """How tiles are to be cut: a tile of h rows costs as much as its scores and those of `overhead`
    further rows; no tile is higher or wider than that."""

    overhead: float
    height: int
    width: int

    def heights(self) -> list[int]:
        """Those that are tried."""
        return [16 << step for step in range(8) if 16 << step <= self.height]

    def best_height(self, reach: int) -> int:
        """Of tiles along a band, whose width is reach + height."""
        return min(self.heights(), key=lambda high: (reach + high) * (1 + self.overhead / high))


class Rectangle(NamedTuple):
    """Rows and columns, counted in the order of their pass; whole: no pair is forbidden."""

    row: int
    height: int
    column: int
    width: int
    whole: bool = False


@dataclass(frozen=True)
class Sketch:
    """Rectangles that hold all pairs of a pattern, and others. No query is in two of them.

    rows, columns: the queries and the keys of the pass, counted from 0; None: all, in order.
    step: how far apart neighbours within a rectangle are, if that is the same everywhere.
    """

    rectangles: Sequence[Rectangle]
    rows: torch.Tensor | None = None
    columns: torch.Tensor | None = None
    step: int | None = None

    @property
    def area(self) -> int:
        return sum(one.height * one.width for one in self.rectangles)


class Tile(NamedTuple):
    """Rows and columns, counted in the order of the pass. bounds: (height, 2) int32, the columns
    [x, y) of the tile that a row may attend to, None if to all; mask: (height, width) bool, which
    of these, None if all."""

    row: int
    height: int
    column: int
    width: int
    bounds: np.ndarray | None
    mask: np.ndarray | None

    def allowed(self) -> torch.Tensor | None:
        """(height, width) bool; None if all pairs are."""
        if self.bounds is None:
            return None
        bounds, column = torch.from_numpy(self.bounds), torch.arange(self.width)
        allowed = (column >= bounds[:, :1]) & (column < bounds[:, 1:])
        return allowed if self.mask is None else allowed & torch.from_numpy(self.mask)


@dataclass(frozen=True)
class Pass:
    """Tiles, in the order of their rows; rows and columns as in a Sketch, and their numbers."""

    tiles: tuple[Tile, ...]
    rows: torch.Tensor | None
    columns: torch.Tensor | None
    row_count: int
    column_count: int

    @cached_property
    def area(self) -> int:
        """The number of scores."""
        return sum(tile.height * tile.width for tile in self.tiles)

    @property
    def rows_in_tiles(self) -> int:
        """The number of queries that lie in some tile."""
        heights = ([tile.height for tile in group] for _, group in groupby(self.tiles, _row))
        return sum(own[0] for own in heights)


@dataclass(frozen=True)
class Layout:
    """The passes of one pattern."""

    passes: tuple[Pass, ...]

    @cached_property
    def area(self) -> int:
        """The number of scores that are computed, forbidden ones within tiles included."""
        return sum(part.area for part in self.passes)


def _row(tile: Tile) -> int:
    return tile.row
