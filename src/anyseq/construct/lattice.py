"""Points of a regular lattice, counted in integers so that nothing rounds."""

from __future__ import annotations

import torch


def lattice(per_axis: int, axes: int) -> torch.Tensor:
    """(per_axis^axes, axes) int64: all of {0, ..., per_axis-1}^axes, the last axis fastest."""
    index = torch.arange(per_axis**axes)
    return torch.stack([index // stride % per_axis for stride in strides(per_axis, axes)], dim=1)


def strides(per_axis: int, axes: int) -> list[int]:
    """The row of point g in `lattice` is Σ_i strides[i] g_i."""
    return [per_axis ** (axes - 1 - axis) for axis in range(axes)]
