"""Probability maps with exact zeros: sparsemax, entmax15, top-k.

α-entmax maximises p·s + H_α(p) over the simplex; its solution is p_j = [(α-1)s_j - τ]_+^(1/(α-1))
with the τ that makes the weights sum to 1 (Peters, Niculae, Martins, 2019). For α = 2 (sparsemax)
and α = 3/2 (entmax15) τ follows from the sorted scores: with the k largest as support it has a
closed form, and the support is the longest prefix that stays positive.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from anyseq.base import at_least_one
from anyseq.probability.maps import ProbMap, Softmax


class _Entmax(torch.autograd.Function):
    """Weights by their threshold; the gradient is s ∘ (g - Σ s g / Σ s), s = p^(2-α)."""

    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor, alpha: float) -> torch.Tensor:
        empty = (scores == -torch.inf).all(-1, keepdim=True)
        # sums over a row need more digits than half precision has
        wide = torch.promote_types(scores.dtype, torch.float32)
        z = (alpha - 1) * scores.masked_fill(empty, 0.0).to(wide)
        # a common shift changes nothing; after it masked scores can be a finite number that is
        # certain to be off the support, since every τ is at least -1
        z = (z - z.amax(-1, keepdim=True)).clamp(min=-2.0)
        threshold = _sparsemax_threshold(z) if alpha == 2 else _entmax15_threshold(z)
        weights = (z - threshold).clamp(min=0.0) ** (1 / (alpha - 1))
        weights = weights.masked_fill(empty, 0.0).to(scores.dtype)
        ctx.save_for_backward(weights)
        ctx.alpha = alpha
        return weights

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        (weights,) = ctx.saved_tensors
        (gradient,) = gradients
        on = weights > 0
        support = torch.where(on, torch.where(on, weights, 1.0) ** (2 - ctx.alpha), 0.0)
        total = support.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
        mean = (support * gradient).sum(-1, keepdim=True) / total
        return support * (gradient - mean), None


def _sparsemax_threshold(z: torch.Tensor) -> torch.Tensor:
    """τ_k = (sum of the k largest - 1)/k for the largest k with z_(k) > τ_k."""
    ordered = z.sort(dim=-1, descending=True).values
    count = torch.arange(1, z.shape[-1] + 1, dtype=z.dtype, device=z.device)
    tau = (ordered.cumsum(-1) - 1) / count
    return _at_last(tau, ordered > tau)


def _entmax15_threshold(z: torch.Tensor) -> torch.Tensor:
    """τ_k = mean_k - sqrt((1 - k·var_k)/k) for the largest k with τ_k <= z_(k)."""
    ordered = z.sort(dim=-1, descending=True).values
    count = torch.arange(1, z.shape[-1] + 1, dtype=z.dtype, device=z.device)
    mean = ordered.cumsum(-1) / count
    spread = (ordered**2).cumsum(-1) - count * mean**2
    tau = mean - ((1 - spread) / count).clamp(min=0.0).sqrt()
    return _at_last(tau, tau <= ordered)


def _at_last(tau: torch.Tensor, holds: torch.Tensor) -> torch.Tensor:
    """τ_k for the last k of the prefix on which it holds; k = 1 if a NaN makes it hold nowhere."""
    prefix = holds.to(torch.int64).cumprod(-1).sum(-1, keepdim=True)
    return tau.gather(-1, (prefix - 1).clamp(min=0))


@dataclass(frozen=True)
class _EntmaxMap(ProbMap):
    @property
    @abstractmethod
    def alpha(self) -> float:
        """α."""

    def __call__(self, scores: torch.Tensor) -> torch.Tensor:
        if scores.shape[-1] == 0:
            return scores
        weights: torch.Tensor = _Entmax.apply(scores, self.alpha)
        return weights


@dataclass(frozen=True)
class Sparsemax(_EntmaxMap):
    """The Euclidean projection of the scores onto the simplex."""

    name: ClassVar[str] = "sparsemax"

    @property
    def alpha(self) -> float:
        return 2.0


@dataclass(frozen=True)
class Entmax15(_EntmaxMap):
    """α-entmax with α = 3/2: between softmax and sparsemax."""

    name: ClassVar[str] = "entmax15"

    @property
    def alpha(self) -> float:
        return 1.5


@dataclass(frozen=True)
class TopK(ProbMap):
    """Softmax over the k largest scores (and those equal to the k-th), 0 elsewhere."""

    name: ClassVar[str] = "topk"
    k: int

    def __post_init__(self) -> None:
        at_least_one("k", self.k)

    def __call__(self, scores: torch.Tensor) -> torch.Tensor:
        if scores.shape[-1] == 0:
            return scores
        least = scores.topk(min(self.k, scores.shape[-1]), dim=-1).values[..., -1:]
        return Softmax()(scores.masked_fill(scores < least, -torch.inf))
