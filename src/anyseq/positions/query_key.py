"""Encodings that act on queries and keys: their scores mix offset and content."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from anyseq.base import at_least_one, positive
from anyseq.positions.absolute import frequencies
from anyseq.positions.position import Place, Position


@dataclass(frozen=True)
class Rotary(Position):
    """RoPE: queries and keys are turned by angles that grow with the position, so that q_i·k_j
    depends on i and j through i - j only.

    Features t and t + size/2 of a head form a plane, turned by p base^(-2t/size) at position p.
    """

    base: float = 10000.0

    def __post_init__(self) -> None:
        positive("base", self.base)

    @property
    def acts_in(self) -> frozenset[Place]:
        return frozenset({Place.QUERY_KEY})

    def turn(self, x: torch.Tensor, first: int) -> torch.Tensor:
        """x (..., n, size) with size even, turned as the positions first, first + 1, ... ask."""
        # angles reach the length of the sequence: half precision has too few digits for them
        wide = torch.promote_types(x.dtype, torch.float32)
        positions = torch.arange(first, first + x.shape[-2], dtype=wide, device=x.device)
        angles = positions[:, None] * frequencies(self.base, x.shape[-1], positions)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


@dataclass(frozen=True)
class Shaw(Position):
    """Shaw et al.: learned vectors a_r, r = clip(i - j, ±max_distance), added to the keys and to
    the values: scores q_i·(k_j + a^K_r), outputs Σ_j w_ij (v_j + a^V_r). All heads share them."""

    max_distance: int = 16

    def __post_init__(self) -> None:
        at_least_one("max_distance", self.max_distance)

    @property
    def acts_in(self) -> frozenset[Place]:
        return frozenset({Place.QUERY_KEY})

    def label(self, offset: torch.Tensor) -> torch.Tensor:
        """The row 0, ..., 2 max_distance of the tables that an offset i - j uses."""
        return offset.clamp(-self.max_distance, self.max_distance) + self.max_distance
