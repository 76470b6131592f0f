"""One validated call of the operator: what every backend receives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from anyseq.patterns import MaskMod
from anyseq.positions import Toeplitz
from anyseq.probability import ProbMap

ScoreMod = Callable[
    [torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor
]
"""(score or weight, batch, head, query index, key index) -> score or weight."""


@dataclass(frozen=True)
class Call:
    """q (B, H, N, D), k (B, H, M, D), v (B, H, M, E), and everything that acts on their scores."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    mask_mod: MaskMod | None
    key_mask: torch.Tensor | None
    bias: torch.Tensor | Toeplitz | None
    gain: torch.Tensor | Toeplitz | None
    score_mod: ScoreMod | None
    weight_mod: ScoreMod | None
    prob_map: ProbMap
    scale: float
    is_causal: bool
    dropout_p: float
    q_offset: int

    @property
    def rows(self) -> torch.Tensor:
        """(N,) the positions of the queries."""
        return torch.arange(self.q.shape[-2], device=self.q.device) + self.q_offset

    @property
    def columns(self) -> torch.Tensor:
        """(M,) the positions of the keys."""
        return torch.arange(self.k.shape[-2], device=self.q.device)
