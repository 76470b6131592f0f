"""Patterns under the names people know."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from anyseq.patterns.pattern import LengthFree


@dataclass(frozen=True)
class Full(LengthFree):
    """Every token looks at every token: A_i = {0, ..., n-1}."""

    def __call__(
        self, b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor
    ) -> torch.Tensor:
        return (i >= 0) & (j >= 0)


@dataclass(frozen=True)
class Causal(LengthFree):
    """Every token looks at itself and at what came before: A_i = {0, ..., i}."""

    @property
    def prefix_stable(self) -> bool:
        return True

    def __call__(
        self, b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor
    ) -> torch.Tensor:
        return j <= i
