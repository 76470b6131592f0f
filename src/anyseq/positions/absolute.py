"""Encodings of the position itself, added to the input: X + E."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from anyseq.base import positive
from anyseq.positions.position import Place, Position


@dataclass(frozen=True)
class Absolute(Position):
    """A learned vector per position, added to the input: X + E, with E of shape (tokens, width)."""

    @property
    def acts_in(self) -> frozenset[Place]:
        return frozenset({Place.INPUT})


@dataclass(frozen=True)
class Sinusoidal(Position):
    """Waves of geometric frequencies: E[p, 2t] = sin(p ω_t), E[p, 2t+1] = cos(p ω_t), with
    ω_t = base^(-2t/width)."""

    base: float = 10000.0

    def __post_init__(self) -> None:
        positive("base", self.base)

    @property
    def acts_in(self) -> frozenset[Place]:
        return frozenset({Place.INPUT})

    def table(self, positions: torch.Tensor, width: int) -> torch.Tensor:
        """E at the given positions (n,), a floating-point tensor: (n, width)."""
        angles = positions[:, None] * frequencies(self.base, width, positions)
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width]


def frequencies(base: float, width: int, like: torch.Tensor) -> torch.Tensor:
    """(ceil(width / 2),) base^(-2t/width), t = 0, 1, ..., with dtype and device of `like`."""
    even = torch.arange(0, width, 2, dtype=like.dtype, device=like.device)
    return base ** (-even / width)
