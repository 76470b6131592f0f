"""Working memory that is used again and again."""

from __future__ import annotations

from math import prod

import torch


class Scratch:
    """Named arrays. To ask the system for fresh memory would cost as much as the arithmetic."""

    def __init__(self, like: torch.Tensor) -> None:
        self._like = like
        self._held: dict[str, torch.Tensor] = {}
        self._blank: dict[str, tuple[int, ...]] = {}

    @property
    def size(self) -> int:
        """Of all arrays together."""
        return sum(held.numel() for held in self._held.values())

    def take(self, name: str, *shape: int) -> torch.Tensor:
        """An array of that shape, with whatever it held before."""
        size = prod(shape)
        held = self._held.get(name)
        if held is None or held.numel() < size:
            with torch.inference_mode(mode=False):  # what is kept must serve training, too
                held = self._held[name] = self._like.new_empty(size)
        return held[:size].view(shape)

    def zeros(self, name: str, *shape: int) -> torch.Tensor:
        """An array of zeros."""
        return self.take(name, *shape).zero_()

    def blank(self, name: str, *shape: int) -> torch.Tensor:
        """An array that was all zeros when this shape was first asked for after another."""
        array = self.take(name, *shape)
        if self._blank.get(name) != shape:
            self._blank[name] = shape
            array.zero_()
        return array

    def pick(self, name: str, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        """The rows x[index]."""
        out = self.take(name, len(index), *x.shape[1:])
        return torch.index_select(x, 0, index, out=out)
