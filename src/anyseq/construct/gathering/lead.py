"""The lead of the keys that hardmax or top-k keep over the others."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from anyseq.probability import ProbMap, TopK

LEAST_LEAD = 2.0**-30
"""Far above the rounding of scores, in units of the largest one (or 1)."""


@dataclass(frozen=True, eq=False)
class Lead(ProbMap):
    """The map `base` that remembers, row by row, the lowest score kept minus the next below it, in
    units of the largest |score| (or 1); keys that tie are kept together."""

    base: ProbMap
    seen: list[float] = field(default_factory=list)

    def __call__(self, scores: torch.Tensor) -> torch.Tensor:
        k = self.base.k if isinstance(self.base, TopK) else 1
        if k < scores.shape[-1]:
            last = scores.topk(k, dim=-1).values[..., -1:]
            below = scores.masked_fill(scores >= last, -torch.inf).amax(-1, keepdim=True)
            lead = (last - below)[last.isfinite() & below.isfinite()]
            largest = scores[scores.isfinite()].abs().max() if lead.numel() else 1.0
            self.seen.extend((lead / max(float(largest), 1.0)).tolist())
        return self.base(scores)

    @property
    def safe(self) -> bool:
        """Whether rounding cannot change what is kept."""
        return min(self.seen, default=1.0) >= LEAST_LEAD
