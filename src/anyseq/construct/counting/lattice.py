"""Points of a regular lattice, counted in integers so that nothing rounds."""

from __future__ import annotations

import torch


def lattice(per_axis: int, axes: int) -> torch.Tensor:
    """(per_axis^axes, axes) int64: all of {0, ..., per_axis-1}^axes, the last axis fastest."""
    index = torch.arange(per_axis**axes)
    return torch.stack([index // stride % per_axis for stride in strides(per_axis, axes)], dim=1)


def causal(values: torch.Tensor, per_axis: int, axes: int) -> torch.Tensor:
    """Values (per_axis^axes, tokens, ...) at the points of `lattice` as those of a causal function:
    token i has its value for zeros after it."""
    points, stride = lattice(per_axis, axes), torch.tensor(strides(per_axis, axes))
    made, tokens = torch.empty_like(values), values.shape[1]
    for token in range(tokens):
        known = (token + 1) * axes // tokens
        made[:, token] = values[points[:, :known] @ stride[:known], token]
    return made


def strides(per_axis: int, axes: int) -> list[int]:
    """The row of point g in `lattice` is Σ_i strides[i] g_i."""
    return [per_axis ** (axes - 1 - axis) for axis in range(axes)]
