"""A layout as arrays that the native kernel reads: one row of numbers for each tile."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np

from anyseq.ops.layout import Grain, Layout, Pass

# Measured; and scores and their gradients stay in the level-2 cache.
GRAIN = Grain(overhead=4, height=128, width=512)


class _Pass(ctypes.Structure):
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


class _Store:
    """Arrays one after the other, each once: tiles that are alike share theirs."""

    def __init__(self, dtype: type[np.generic]) -> None:
        self.parts = [np.zeros(1, dtype)]
        self.places: dict[int, int] = {}
        self.size = 1

    def place(self, given: np.ndarray | None) -> int:
        """Where it begins, -1 for None."""
        if given is None:
            return -1
        if id(given) not in self.places:
            self.places[id(given)] = self.size
            self.parts.append(given.ravel().astype(self.parts[0].dtype))
            self.size += given.size
        return self.places[id(given)]


def table(layout: Layout) -> Table:
    """The layout's table."""
    bounds, masks = _Store(np.int32), _Store(np.uint8)
    passes, held = (_Pass * max(1, len(layout.passes)))(), []
    for struct, part in zip(passes, layout.passes, strict=False):
        held += _fill(struct, part, bounds, masks)
    both = [np.concatenate(store.parts) for store in (bounds, masks)]
    addresses = (store.ctypes.data for store in both)
    struct = LayoutStruct(ctypes.addressof(passes), len(layout.passes), *addresses)
    return Table(struct, layout.area, (passes, *both, *held))


def _fill(struct: _Pass, part: Pass, bounds: _Store, masks: _Store) -> list[object]:
    """Write a pass; gives what its pointers point to."""
    tiles = np.array(
        [(*tile[:4], bounds.place(tile.bounds), masks.place(tile.mask)) for tile in part.tiles],
        np.int64,
    )
    orders = [
        None if order is None else np.ascontiguousarray(order.numpy())
        for order in (part.rows, part.columns)
    ]
    struct.tiles, struct.count = tiles.ctypes.data, len(tiles)
    struct.rows, struct.columns = (None if order is None else order.ctypes.data for order in orders)
    struct.row_count, struct.column_count = part.row_count, part.column_count
    return [tiles, *orders]
