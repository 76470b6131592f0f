"""The fused form of a softmax partition of unity over the centres of cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from anyseq.construct.counting.lattice import lattice, strides


@dataclass(frozen=True)
class SoftTable:
    """Σ_g w_g(x) values[g] with w = softmax_g(-κ|x-g|²/δ²), over the centres g of N^D cells.

    The weight is a product over the axes. Along one axis, between centre j and the next, with
    y = Nx - 1/2 - j, the upper one weighs σ(κ(2y - 1)) of the two; the others weigh less than
    3e^-κ, which is below every rounding for κ >= 64, and are left out. So there are 2^D centres to
    look up, however many there are.
    """

    kind: ClassVar[str] = "soft"
    steps: int
    sharpness: float  # κ
    values: torch.Tensor  # (N^D, tokens, out_features)

    def covers(self, x: torch.Tensor) -> torch.Tensor:
        return ((x >= 0) & (x <= 1)).flatten(1).all(1)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        scaled = x.flatten(1) * self.steps - 0.5
        axes = scaled.shape[1]
        lower = scaled.floor().clamp(0, self.steps - 2)
        upper_weight = torch.sigmoid(self.sharpness * (2 * (scaled - lower) - 1))
        lower_weight = torch.sigmoid(self.sharpness * (1 - 2 * (scaled - lower)))
        stride = torch.tensor(strides(self.steps, axes))
        row = lower.long() @ stride
        total = torch.zeros(x.shape[0], *self.values.shape[1:], dtype=torch.float64)
        for corner in lattice(2, axes):
            weight = torch.where(corner.bool(), upper_weight, lower_weight).prod(1)
            total += weight[:, None, None] * self.values[row + corner @ stride]
        return total

    def tensors(self) -> dict[str, torch.Tensor]:
        return {"values": self.values}

    def facts(self) -> dict[str, Any]:
        return {"kind": self.kind, "steps": self.steps, "sharpness": self.sharpness}
