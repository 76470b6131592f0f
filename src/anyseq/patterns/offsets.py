"""Patterns that depend on the offset i - j only."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch

from anyseq.base import at_least_one
from anyseq.patterns.pattern import LengthFree


class OffsetPattern(LengthFree):
    """i looks at j where `allows(i - j)`; the mask is Toeplitz, and declared so."""

    @abstractmethod
    def allows(self, offset: torch.Tensor) -> torch.Tensor:
        """Whether a token looks at the one `offset` places before it (after it, if negative)."""

    def __call__(
        self, b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor
    ) -> torch.Tensor:
        return self.allows(i - j)

    def offsets(self, n: int) -> torch.Tensor:
        return self.allows(torch.arange(1 - n, n))


@dataclass(frozen=True)
class Full(OffsetPattern):
    """Every token looks at every token: A_i = {0, ..., n-1}."""

    def allows(self, offset: torch.Tensor) -> torch.Tensor:
        return torch.ones_like(offset, dtype=torch.bool)


@dataclass(frozen=True)
class Causal(OffsetPattern):
    """Every token looks at itself and at what came before: A_i = {0, ..., i}."""

    @property
    def prefix_stable(self) -> bool:
        return True

    def allows(self, offset: torch.Tensor) -> torch.Tensor:
        return offset >= 0


@dataclass(frozen=True)
class Window(OffsetPattern):
    """Every token looks at its neighbours: A_i = {j : |i-j| <= radius}."""

    radius: int

    def __post_init__(self) -> None:
        at_least_one("radius", self.radius)

    def allows(self, offset: torch.Tensor) -> torch.Tensor:
        return offset.abs() <= self.radius


@dataclass(frozen=True)
class Dilated(OffsetPattern):
    """A window with gaps: A_i = {j : i-j = t·step, |t| <= radius}."""

    radius: int
    step: int

    def __post_init__(self) -> None:
        reach = at_least_one("radius", self.radius) * at_least_one("step", self.step)
        at_least_one("radius * step", reach)

    def allows(self, offset: torch.Tensor) -> torch.Tensor:
        return (offset.abs() <= self.radius * self.step) & (offset % self.step == 0)


@dataclass(frozen=True)
class Residue(OffsetPattern):
    """Every token looks at those of its residue class: A_i = {j : i-j divisible by stride}."""

    stride: int

    def __post_init__(self) -> None:
        at_least_one("stride", self.stride)

    def allows(self, offset: torch.Tensor) -> torch.Tensor:
        return offset % self.stride == 0


@dataclass(frozen=True)
class LogSparse(OffsetPattern):
    """Every token looks at itself and at distances that are powers of two: |i-j| in {0, 1, 2, 4,
    8, ...}."""

    def allows(self, offset: torch.Tensor) -> torch.Tensor:
        distance = offset.abs()
        return (distance & (distance - 1)) == 0  # 0 & -1 = 0: the token itself
