"""Positions at the input: X + E."""

from __future__ import annotations

import torch
from torch import nn

from anyseq.positions import URPE, Absolute, Position, Sinusoidal

INIT_STD = 0.02
"""The standard deviation with which learned tables start."""


class LearnedInput(nn.Module):
    """x + E, with E (tokens, dim) learned."""

    def __init__(
        self,
        tokens: int,
        dim: int,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        table = torch.empty(tokens, dim, dtype=dtype, device=device)
        self.table = nn.Parameter(nn.init.normal_(table, std=INIT_STD))

    def forward(
        self, x: torch.Tensor, first: int = 0, positions: torch.Tensor | None = None
    ) -> torch.Tensor:
        """x (batch, n, dim), its tokens at `positions` (batch, n), or at first, first + 1, ..."""
        if positions is not None:
            return x + self.table[positions]
        return x + self.table[first : first + x.shape[1]]


class SinusoidalInput(nn.Module):
    """x + E, with the fixed waves of `Sinusoidal`; made anew for each call, so any length goes and
    nothing is lost when the module changes its dtype or is built on the meta device."""

    def __init__(self, position: Sinusoidal) -> None:
        super().__init__()
        self.position = position

    def forward(
        self, x: torch.Tensor, first: int = 0, positions: torch.Tensor | None = None
    ) -> torch.Tensor:
        """x (batch, n, dim), its tokens at `positions` (batch, n), or at first, first + 1, ..."""
        wide = torch.promote_types(x.dtype, torch.float32)
        if positions is None:
            places = torch.arange(first, first + x.shape[1], dtype=wide, device=x.device)
            return x + self.position.table(places, x.shape[2]).to(x.dtype)
        table = self.position.table(positions.flatten().to(wide), x.shape[2])
        return x + table.view_as(x).to(x.dtype)


def input_position(
    position: Position,
    tokens: int,
    dim: int,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> LearnedInput | SinusoidalInput | None:
    """The module for what a position does at the input; None if it does nothing there."""
    match position:
        case URPE():
            return input_position(position.base, tokens, dim, dtype=dtype, device=device)
        case Absolute():
            return LearnedInput(tokens, dim, dtype=dtype, device=device)
        case Sinusoidal():
            return SinusoidalInput(position)
        case _:
            return None
