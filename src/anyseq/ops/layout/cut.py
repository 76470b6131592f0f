"""From rectangles to tiles: what a pattern forbids within them, and where they are cut."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import torch

from anyseq.ops.layout.tiling import Grain, Pass, Rectangle, Sizes, Sketch, Tile
from anyseq.patterns import Pattern


def cut(sketch: Sketch, pattern: Pattern, sizes: Sizes, grain: Grain) -> Pass:
    """The tiles of a sketch that count the pattern's pairs; equal rectangles are computed once."""
    found: list[Tile] = []
    known: dict[Hashable, list[Tile]] = {}
    look = _Look(sketch, pattern, sizes)
    for one in sketch.rectangles:
        key = look.key(one)
        pieces = None if key is None else known.get(key)
        if pieces is None:
            pieces = _pieces(*look.seen(one), grain)
            if key is not None:
                known[key] = pieces
        found += [
            tile._replace(row=one.row + tile.row, column=one.column + tile.column)
            for tile in pieces
        ]
    found.sort(key=lambda tile: (tile.row, tile.column))
    return Pass(tuple(found), sketch.rows, sketch.columns, len(look.rows), len(look.columns))


class _Look:
    """Which pairs of a sketch's rectangles the pattern allows."""

    def __init__(self, sketch: Sketch, pattern: Pattern, sizes: Sizes) -> None:
        self.sketch, self.sizes = sketch, sizes
        self.rows = _positions(sketch.rows, sizes.queries) + sizes.q_offset
        self.columns = _positions(sketch.columns, sizes.keys)
        offsets = pattern.offsets(sizes.span)
        self.offsets = None if offsets is None else offsets.numpy()
        self.mask_mod = pattern.at(sizes.span)
        # If the allowed offsets are an interval, each row sees an interval.
        allowed = np.empty(0) if self.offsets is None else np.flatnonzero(self.offsets)
        self.interval = None
        if len(allowed) and allowed[-1] - allowed[0] == len(allowed) - 1:
            self.interval = allowed[0] - (sizes.span - 1), allowed[-1] - (sizes.span - 1)

    def key(self, one: Rectangle) -> Hashable | None:
        """Equal for rectangles that are alike."""
        if one.whole:
            return one.height, one.width
        if self.offsets is None or self.sketch.step is None:
            return None
        return int(self.rows[one.row] - self.columns[one.column]), one.height, one.width

    def seen(self, one: Rectangle) -> tuple[np.ndarray, np.ndarray | None]:
        """(height, 2): the columns [x, y) that each row may attend to, (0, 0) if none, and the
        mask."""
        i = self.rows[one.row : one.row + one.height, None]
        j = self.columns[None, one.column : one.column + one.width]
        if one.whole:
            return np.full((one.height, 2), (0, one.width), np.int32), None
        if self.interval is not None and self.sketch.step == 1:
            low, high = self.interval
            bounds = np.concatenate([i - high, i - low + 1], 1) - int(j[0, 0])
            return _tidy(bounds.clip(0, one.width)), None
        if self.offsets is not None:
            allowed = self.offsets[i - j + self.sizes.span - 1]
        else:
            zero = torch.zeros((), dtype=torch.int64)
            given = self.mask_mod(zero, zero, torch.from_numpy(i), torch.from_numpy(j))
            allowed = given.expand(one.height, one.width).numpy()
        some = allowed.any(1)
        last = one.width - allowed[:, ::-1].argmax(1)
        bounds = np.stack([allowed.argmax(1), last], 1) * some[:, None]
        return bounds.astype(np.int32), allowed


def _positions(order: torch.Tensor | None, count: int) -> np.ndarray:
    return np.arange(count) if order is None else order.numpy()


def _tidy(bounds: np.ndarray) -> np.ndarray:
    """(0, 0) for rows with nothing to attend to."""
    return (bounds * (bounds[:, :1] < bounds[:, 1:])).astype(np.int32)


def _pieces(bounds: np.ndarray, mask: np.ndarray | None, grain: Grain) -> list[Tile]:
    """Tiles of a rectangle whose rows attend to these columns: as high as is quickest, and no wider
    than their rows need."""
    found = []
    for top, bottom in _cuts(bounds, grain):
        own = bounds[top:bottom]
        seen = own[own[:, 0] < own[:, 1]]
        if not len(seen):
            continue
        left, right = int(seen[:, 0].min()), int(seen[:, 1].max())
        for start in range(left, right, grain.width):
            width = min(grain.width, right - start)
            inner = _tidy((own - start).clip(0, width))
            part = None if mask is None else mask[top:bottom, start : start + width]
            if part is not None and part.sum() == (inner[:, 1] - inner[:, 0]).sum():
                part = None
            if (inner == (0, width)).all() and part is None:
                found.append(Tile(top, bottom - top, start, width, None, None))
            elif inner.any():
                part = None if part is None else np.ascontiguousarray(part)
                found.append(Tile(top, bottom - top, start, width, inner, part))
    return found


def _cuts(bounds: np.ndarray, grain: Grain) -> list[tuple[int, int]]:
    """Where to cut: all rows, as (first, last)."""
    height = len(bounds)
    first = np.where(bounds[:, 0] < bounds[:, 1], bounds[:, 0], 1 << 30)
    last = bounds[:, 1]

    def cuts(step: int) -> list[tuple[int, int]]:
        return [(top, min(top + step, height)) for top in range(0, height, step)]

    def cost(step: int) -> float:
        tops = np.arange(0, height, step)
        widths = np.maximum.reduceat(last, tops) - np.minimum.reduceat(first, tops)
        rows = np.minimum(step, height - tops) + grain.overhead
        return float((widths.clip(0) * rows).sum())

    return cuts(min(grain.heights(), key=cost))
