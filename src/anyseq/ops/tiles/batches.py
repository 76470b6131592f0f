"""Tiles of equal shape, stacked: a small tile takes an operator of torch as long as many do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

import torch
from torch import Tensor

from anyseq.ops.layout import Grain, Pass, Sizes, Tile, cover
from anyseq.patterns import Pattern

GRAIN = Grain(overhead=16, height=256, width=2048)  # measured
_SCORES = 1 << 19  # of a batch, which stay in the caches


@dataclass(frozen=True)
class Batch:
    """T tiles: queries (T, m) and keys (T, w), counted from 0; no query is in two of them. allowed:
    (T or 1, m, w) bool, None if all pairs are."""

    rows: Tensor
    columns: Tensor
    allowed: Tensor | None

    def to(self, device: torch.device) -> Batch:
        allowed = None if self.allowed is None else self.allowed.to(device)
        return Batch(self.rows.to(device), self.columns.to(device), allowed)


def batches(pattern: Pattern, sizes: Sizes, device: torch.device) -> tuple[Batch, ...]:
    """All tiles of a pattern; remembered if that is worth it."""
    make = _remembered if pattern.lasting else _batches
    return make(pattern, sizes, device)


def _batches(pattern: Pattern, sizes: Sizes, device: torch.device) -> tuple[Batch, ...]:
    passes = cover(pattern, sizes, GRAIN).passes
    return tuple(_stacked(part, tiles).to(device) for part in passes for tiles in _alike(part))


_remembered = lru_cache(maxsize=64)(_batches)


def _alike(part: Pass) -> Iterator[list[Tile]]:
    """Tiles of equal shape, so many as a batch may have, each of another group."""
    by_shape: dict[tuple[int, int, int], list[Tile]] = {}
    for _, group in groupby(part.tiles, lambda tile: tile.row):
        for turn, tile in enumerate(group):
            by_shape.setdefault((turn, tile.height, tile.width), []).append(tile)
    for (_, height, width), tiles in by_shape.items():
        count = max(1, _SCORES // (height * width))
        for first in range(0, len(tiles), count):
            yield tiles[first : first + count]


def _stacked(part: Pass, tiles: list[Tile]) -> Batch:
    height, width = tiles[0].height, tiles[0].width
    rows = torch.tensor([tile.row for tile in tiles])[:, None] + torch.arange(height)
    columns = torch.tensor([tile.column for tile in tiles])[:, None] + torch.arange(width)
    first, alike = tiles[0], True
    for tile in tiles:
        alike &= tile.bounds is first.bounds and tile.mask is first.mask
    masks = [tile.allowed() for tile in (tiles[:1] if alike else tiles)]
    allowed = None
    if any(mask is not None for mask in masks):
        full = torch.ones(height, width, dtype=torch.bool)
        allowed = torch.stack([full if mask is None else mask for mask in masks])
    return Batch(
        rows if part.rows is None else part.rows[rows],
        columns if part.columns is None else part.columns[columns],
        allowed,
    )
