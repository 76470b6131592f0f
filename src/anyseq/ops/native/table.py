"""A layout as arrays that the native kernel reads: one row of numbers for each tile."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

import numpy as np

from anyseq.ops.layout import Layout, Pass, Run

_HEIGHTS = (16, 24, 32, 48, 64, 96, 128)
_OVERHEAD = 8.0  # a score in a tile of h rows costs 1 + 8/h of one in a very high tile: measured
_WIDTH = 512  # of a tile at most, so that scores and their gradients stay in the level-2 cache
_FIELDS = ("row", "height", "column", "width", "bounds", "left", "mask", "pitch")


class PassStruct(ctypes.Structure):
    """`Pass` of attention.cpp."""

    _fields_ = (
        ("tiles", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("rows", ctypes.c_void_p),
        ("columns", ctypes.c_void_p),
        ("row_count", ctypes.c_int64),
        ("column_count", ctypes.c_int64),
    )


class LayoutStruct(ctypes.Structure):
    """`Layout` of attention.cpp."""

    _fields_ = (
        ("passes", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("bounds", ctypes.c_void_p),
        ("masks", ctypes.c_void_p),
    )


@dataclass(frozen=True)
class Table:
    """A layout for the kernel; `area` counts the scores it computes. `held` is what pointers point
    to."""

    struct: LayoutStruct
    area: int
    held: tuple[object, ...]


@dataclass
class _Writer:
    """Bounds (rows, 2) and bytes of masks, of all tiles of a layout."""

    bounds: list[np.ndarray] = field(default_factory=list)
    masks: list[np.ndarray] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0

    def add(self, allowed: np.ndarray) -> tuple[np.ndarray, int, int]:
        """Of allowed (kinds, height, width): the bounds (kinds, height, 2) of its rows, where they
        begin, and where the bytes begin, -1 if the bounds say all."""
        seen = allowed.any(-1)
        first = np.where(seen, allowed.argmax(-1), 0)
        last = np.where(seen, allowed.shape[2] - allowed[:, :, ::-1].argmax(-1), 0)
        bounds = np.stack([first, last], -1).astype(np.int32)
        at, mask_at = self.rows, -1
        self.bounds.append(bounds.reshape(-1, 2))
        self.rows += len(self.bounds[-1])
        if (allowed.sum(-1) != last - first).any():
            mask_at = self.bytes
            self.masks.append(allowed.astype(np.uint8).ravel())
            self.bytes += allowed.size
        return bounds, at, mask_at


def table(layout: Layout) -> Table:
    """The layout's table. Tiles are cut anew: so high as is quickest, and no wider than what their
    rows see."""
    writer = _Writer()
    passes, held, area = (PassStruct * max(1, len(layout.passes)))(), [], 0
    for struct, part in zip(passes, layout.passes, strict=False):
        tiles = np.concatenate([_tiles(part, run, writer) for run in part.runs])
        # what has the same rows goes one after the other, and then it is one group
        tiles = np.ascontiguousarray(tiles[np.lexsort((tiles[:, 2], tiles[:, 0]))])
        rows, columns = (np.ascontiguousarray(x.numpy()) for x in (part.rows, part.columns))
        struct.tiles, struct.count = tiles.ctypes.data, len(tiles)
        struct.rows = rows.ctypes.data if part.picks_rows else None
        struct.columns = columns.ctypes.data if part.picks_columns else None
        struct.row_count, struct.column_count = len(rows), len(columns)
        held += [tiles, rows, columns]
        area += int((tiles[:, 1] * tiles[:, 3]).sum())
    bounds = np.concatenate([*writer.bounds, np.zeros((1, 2), np.int32)])
    masks = np.concatenate([*writer.masks, np.zeros(1, np.uint8)])
    struct = LayoutStruct(
        ctypes.addressof(passes), len(layout.passes), bounds.ctypes.data, masks.ctypes.data
    )
    return Table(struct, area, (passes, bounds, masks, *held))


def _tiles(part: Pass, run: Run, writer: _Writer) -> np.ndarray:
    """The tiles of a run, cut: (tiles, 8) int64, see `_FIELDS`."""
    kinds = max((len(patch.penalty) for patch in run.patches), default=0)
    pieces = []
    if kinds:
        allowed = np.ones((kinds, run.height, run.width), bool)
        for patch in run.patches:
            stop = patch.start + patch.penalty.shape[2]
            allowed[:, :, patch.start : stop] &= (patch.penalty == 0).numpy()
        bounds, bounds_at, mask_at = writer.add(allowed)
    else:
        bounds = np.broadcast_to(np.array([0, run.width], np.int32), (1, run.height, 2))
        bounds_at = mask_at = -1
    number = np.arange(run.tiles)
    kind = number if kinds > 1 else np.zeros_like(number)
    for top, bottom in _cuts(bounds):
        inner = bounds[:, top:bottom]
        seen = inner[inner[..., 0] < inner[..., 1]]
        if not len(seen):
            continue
        left, right = int(seen[:, 0].min()), int(seen[:, 1].max())
        for start in range(left, right, _WIDTH):
            piece = np.empty((run.tiles, len(_FIELDS)), np.int64)
            piece[:, 0] = run.first_row + number * run.row_step + top
            piece[:, 1] = bottom - top
            piece[:, 2] = run.first_column + number * run.column_step + start
            piece[:, 3] = min(_WIDTH, right - start)
            piece[:, 4] = -1 if bounds_at < 0 else bounds_at + kind * run.height + top
            piece[:, 5] = start
            row = kind * run.height + top
            piece[:, 6] = -1 if mask_at < 0 else mask_at + row * run.width + start
            piece[:, 7] = run.width
            pieces.append(piece)
    return np.concatenate(pieces) if pieces else np.empty((0, len(_FIELDS)), np.int64)


def _cuts(bounds: np.ndarray) -> list[tuple[int, int]]:
    """Where to cut tiles whose rows see bounds (kinds, height, 2): all rows, as (first, last)."""
    height = bounds.shape[1]
    first = np.where(bounds[..., 0] < bounds[..., 1], bounds[..., 0], 1 << 30).min(0)
    last = bounds[..., 1].max(0)

    def cut(step: int) -> list[tuple[int, int]]:
        return [(top, min(top + step, height)) for top in range(0, height, step)]

    def cost(step: int) -> float:
        return sum(
            max(0, int(last[top:bottom].max()) - int(first[top:bottom].min()))
            * (bottom - top + _OVERHEAD)
            for top, bottom in cut(step)
        )

    return cut(min(_HEIGHTS, key=cost))
