"""Working memory of short attention: arrays and views of them, made once for each shape."""

from __future__ import annotations

from threading import local

import torch
from torch import Tensor

from anyseq.ops.tiles.scratch import Scratch

_SHAPES = 64  # whose views a thread keeps; the memory behind them is the same

Sizes = tuple[int, int, int, int, int, int]
"""B, H, N, M, D, E of q (B, H, N, D), k (B, H, M, D), v (B, H, M, E)."""


class Room:
    """Arrays (B·H, rows, columns), contiguous: q, k, v and their gradients dq, dk, dv; out, which
    is also for its gradient; mixing and change, of the size of the scores. Then views of them:

    flat: the shape of scores. mixing, change: with four axes, and mixing_flat, change_flat.
    q_by_head, k_by_head, v_by_head: (B, H, rows, columns).
    out_by_token: (B, N, H, E). packed: q, k and v in one, (B, N, 3, H, D), if their sizes agree.
    """

    def __init__(self, sizes: Sizes, scratch: Scratch) -> None:
        batch, heads, queries, self.keys, size, value_size = sizes
        self._heads, self._rows = (batch, heads), batch * heads
        self._shapes = ((queries, size), (self.keys, size), (self.keys, value_size))
        self.q, self.k, self.v = self._three("sides", scratch)
        self.dq, self.dk, self.dv = self._three("gradients", scratch)
        self.out = scratch.take("out", self._rows, queries, value_size)
        self.flat = (self._rows, queries, self.keys)
        self.mixing_flat = scratch.take("mixing", *self.flat)
        self.change_flat = scratch.take("change", *self.flat)
        self.mixing, self.change = self._by_head(self.mixing_flat), self._by_head(self.change_flat)
        self.q_by_head, self.k_by_head = self._by_head(self.q), self._by_head(self.k)
        self.v_by_head = self._by_head(self.v)
        self.out_by_token = self._by_head(self.out).transpose(1, 2)
        if self._shapes[0] == self._shapes[1] == self._shapes[2]:
            self.packed = self._packed("sides", scratch)
            self._packed_gradients = self._packed("gradients", scratch)

    def gradients(self, packed: bool) -> list[Tensor]:
        """Copies of dq, dk and dv, by head, or of all of them packed."""
        if packed:
            return [self._packed_gradients.clone(memory_format=torch.contiguous_format)]
        return [self._by_head(side.clone()) for side in (self.dq, self.dk, self.dv)]

    def _three(self, name: str, scratch: Scratch) -> list[Tensor]:
        """Three arrays, one after the other."""
        sizes = [self._rows * rows * columns for rows, columns in self._shapes]
        parts = scratch.take(name, sum(sizes)).split(sizes)
        return [
            part.view(self._rows, *shape) for part, shape in zip(parts, self._shapes, strict=True)
        ]

    def _packed(self, name: str, scratch: Scratch) -> Tensor:
        return scratch.take(name, 3, *self._heads, *self._shapes[0]).permute(1, 3, 0, 2, 4)

    def _by_head(self, flat: Tensor) -> Tensor:
        return flat.view(*self._heads, *flat.shape[1:])


class _Rooms(local):
    """Those of this thread: a call uses its room until it returns, and nobody needs what it leaves
    there."""

    def __init__(self) -> None:
        self.scratch: dict[torch.dtype, Scratch] = {}
        self.known: dict[tuple[Sizes, torch.dtype], Room] = {}


_rooms = _Rooms()


def numbers(sizes: Sizes) -> int:
    """How many a room for these sizes holds."""
    batch, heads, queries, keys, size, value_size = sizes
    sides = queries * size + keys * size + keys * value_size
    return batch * heads * (2 * queries * keys + 2 * sides + queries * value_size)


def room(sizes: Sizes, dtype: torch.dtype) -> Room:
    """The room for these sizes."""
    found = _rooms.known.get((sizes, dtype))
    if found is None:
        scratch = _rooms.scratch.setdefault(dtype, _empty(dtype))
        held = scratch.size
        found = Room(sizes, scratch)
        if scratch.size > held or len(_rooms.known) >= _SHAPES:
            _rooms.known.clear()  # views of smaller arrays would keep these alive
        _rooms.known[sizes, dtype] = found
    return found


def _empty(dtype: torch.dtype) -> Scratch:
    return Scratch(torch.empty(0, dtype=dtype, device="cpu"))
