"""The numbers of a formula as tensors: one entry per sequence of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "sin": torch.sin,
    "cos": torch.cos,
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "abs": torch.abs,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
}
_BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "subtract": torch.sub,
    "multiply": torch.mul,
    "divide": torch.div,
}


class Values:
    """(batch,) tensors in float64; constants have no batch."""

    def constant(self, value: float) -> Tensor:
        return torch.tensor(value, dtype=torch.float64)

    def unary(self, name: str, a: Tensor) -> Tensor:
        return _UNARY[name](a)

    def power(self, a: Tensor, exponent: int) -> Tensor:
        """By repeated multiplication, as the page does it."""
        product = torch.ones_like(a)
        for _ in range(exponent):
            product = product * a
        return product

    def binary(self, name: str, a: Tensor, b: Tensor) -> Tensor:
        return _BINARY[name](a, b)

    def sort(self, entries: Sequence[Tensor]) -> list[Tensor]:
        together = torch.stack(torch.broadcast_tensors(*entries))
        return list(together.sort(0).values.unbind())
