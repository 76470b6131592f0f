"""Working memory of short attention: arrays and views of them, made once for each shape."""

from __future__ import annotations

from threading import local
from typing import Any, TypeVar

import torch
from torch import Tensor

from anyseq.ops.tiles.scratch import Scratch

_SHAPES = 64  # whose views a thread keeps; the memory behind them is the same

Sizes = tuple[int, int, int, int, int]
"""B, H, N, M, E of q (B, H, N, D), k (B, H, M, D), v (B, H, M, E)."""


class Room:
    """Arrays (B·H, rows, columns), contiguous: out, which is also for its gradient; mixing_flat and
    change_flat, of the shape of the scores, flat. Then views of them:

    mixing, change: (B, H, N, M). out_by_head: (B, H, N, E). out_by_token: (B, N, H, E).
    """

    def __init__(self, sizes: Sizes, scratch: Scratch) -> None:
        batch, heads, queries, self.keys, value_size = sizes
        self.flat = (batch * heads, queries, self.keys)
        self.mixing_flat = scratch.take("mixing", *self.flat)
        self.change_flat = scratch.take("change", *self.flat)
        self.out = scratch.take("out", batch * heads, queries, value_size)

        def by_head(flat: Tensor) -> Tensor:
            return flat.view(batch, heads, *flat.shape[1:])

        self.mixing, self.change = by_head(self.mixing_flat), by_head(self.change_flat)
        self.out_by_head = by_head(self.out)
        self.out_by_token = self.out_by_head.transpose(1, 2)


class LayerRoom(Room):
    """That of a layer, whose queries, keys and values are all of x (B, N, dim), so D = E and M = N:

    sides: (3, B, H, N, D), q, k and v one after the other; sides_flat: the three (B·H, N, D).
    projected: the same by token, (B·N, 3·H·D), in memory of its own; projected_sides: a view of it
    in the order of sides. mixed: (B·N, H·D), in the same memory as projected; mixed_by_token: a
    view of it, (B, N, H, D).
    """

    def __init__(self, sizes: Sizes, scratch: Scratch) -> None:
        super().__init__(sizes, scratch)
        batch, heads, tokens, _, size = sizes
        rows, inner = batch * tokens, heads * size
        self.sides = scratch.take("sides", 3, batch, heads, tokens, size)
        self.sides_flat = self.sides.flatten(1, 2).unbind()
        self.projected = scratch.take("projected", rows, 3 * inner)
        by_token = self.projected.view(batch, tokens, 3, heads, size)
        self.projected_sides = by_token.permute(2, 0, 3, 1, 4)
        self.mixed = scratch.take("projected", rows, inner)
        self.mixed_by_token = self.mixed.view(batch, tokens, heads, size)


R = TypeVar("R", bound=Room)


class _Rooms(local):
    """Those of this thread: a call uses its room until it returns, and nobody needs what it leaves
    there."""

    def __init__(self) -> None:
        self.scratch: dict[torch.dtype, Scratch] = {}
        self.known: dict[tuple[type[Room], Sizes, torch.dtype], Any] = {}


_rooms = _Rooms()


def numbers(sizes: Sizes) -> int:
    """How many a `Room` for these sizes holds; a `LayerRoom` has 6·B·N·H·D more."""
    batch, heads, queries, keys, value_size = sizes
    return batch * heads * queries * (2 * keys + value_size)


def room(kind: type[R], sizes: Sizes, dtype: torch.dtype) -> R:
    """This thread's room for these sizes."""
    found: R | None = _rooms.known.get((kind, sizes, dtype))
    if found is None:
        if dtype not in _rooms.scratch:
            _rooms.scratch[dtype] = Scratch(torch.empty(0, dtype=dtype, device="cpu"))
        scratch = _rooms.scratch[dtype]
        held = scratch.size
        found = kind(sizes, scratch)
        if scratch.size > held or len(_rooms.known) >= _SHAPES:
            _rooms.known.clear()  # views of smaller arrays would keep these alive
        _rooms.known[kind, sizes, dtype] = found
    return found
