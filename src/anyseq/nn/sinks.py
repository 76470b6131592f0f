"""A sink beside the keys, for probability maps that are not softmax."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from anyseq.probability import ProbMap


@dataclass(frozen=True, eq=False)
class BesideSink(ProbMap):
    """A map of the scores and of one more, which takes its share of the weight and gives no value.

    sink: (heads,) its score; scores are (batch, heads, queries, keys).
    """

    base: ProbMap
    sink: torch.Tensor

    def __call__(self, scores: torch.Tensor) -> torch.Tensor:
        beside = self.sink[:, None, None].expand(*scores.shape[:-1], 1).to(scores.dtype)
        return self.base(torch.cat([scores, beside], dim=-1))[..., :-1]
