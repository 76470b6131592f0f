"""Inputs that try a construction: anywhere, at cell corners, on the quantiser's ramps."""

from __future__ import annotations

import torch

from anyseq.construct import Approximation
from anyseq.construct.tables.fused import CellTable


def random(result: Approximation, count: int, seed: int = 0) -> torch.Tensor:
    """Uniform in [0, 1)."""
    shape = result.size
    rng = torch.Generator().manual_seed(seed)
    return torch.rand(count, shape.tokens, shape.in_features, generator=rng, dtype=torch.float64)


def corners(result: Approximation, count: int, seed: int = 0) -> torch.Tensor:
    """Lower ends of cells in some entries, the last good points of cells in others."""
    x = random(result, count, seed)
    step = result.facts.step
    low = (x / step).floor() * step
    high = low + step
    if isinstance(result.fused, CellTable):
        high = (high - 2 * result.fused.ramp).clamp(max=result.fused.end)
    return torch.where(random(result, count, seed + 1) < 0.5, low, high)


def ramps(result: Approximation, count: int, seed: int = 0) -> torch.Tensor:
    """The first entry, and half of the others, on a ramp of the quantiser."""
    assert isinstance(result.fused, CellTable)
    x = random(result, count, seed)
    step, ramp = result.facts.step, result.fused.ramp
    token = torch.tensor(result.fused.offsets, dtype=torch.float64)[:, None]
    end = ((x + token) / step).floor() * step + step
    chosen = random(result, count, seed + 1) < 0.5
    chosen[:, 0, 0] = True
    return torch.where(chosen, end - ramp / 2 - token, x)
