"""Multi-head attention with heads of any size."""

from __future__ import annotations

from typing import NamedTuple

import torch
from einops import rearrange
from torch import nn
from torch.nn.functional import linear

from anyseq.base import at_least_one
from anyseq.errors import InvalidArgument
from anyseq.ops import attention
from anyseq.patterns import PatternLike
from anyseq.probability import ProbMap, resolve_prob_map


class HeadWeights(NamedTuple):
    """q, k, v: (heads · size, dim); q_bias: (heads · size,); o: (dim, heads · size)."""

    q: torch.Tensor
    q_bias: torch.Tensor | None
    k: torch.Tensor
    v: torch.Tensor
    o: torch.Tensor


def multi_head(
    x: torch.Tensor,
    weights: HeadWeights,
    *,
    heads: int,
    pattern: PatternLike,
    prob_map: ProbMap,
    scale: float | None,
) -> torch.Tensor:
    """Σ_heads ρ((x W_Q + b_Q)(x W_K)^T scale, masked) x W_V W_O for x (batch, tokens, dim)."""
    projected = (
        linear(x, weights.q, weights.q_bias),
        linear(x, weights.k),
        linear(x, weights.v),
    )
    q, k, v = (rearrange(side, "b n (h m) -> b h n m", h=heads) for side in projected)
    mixed = attention(q, k, v, pattern=pattern, prob_map=prob_map, scale=scale)
    return linear(rearrange(mixed, "b h n m -> b n (h m)"), weights.o)


class Attention(nn.Module):
    """Attention over one sequence; the residual is the block's.

    head_dim: the size of a head, dim / heads unless given; 1 is allowed.
    query_bias: a learned vector added to every query (the papers' constructions need it).
    scale: 1/sqrt(head_dim) unless given.
    """

    def __init__(
        self,
        dim: int,
        heads: int = 1,
        head_dim: int | None = None,
        *,
        pattern: PatternLike = None,
        prob_map: str | ProbMap = "softmax",
        query_bias: bool = True,
        scale: float | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        at_least_one("dim", dim)
        at_least_one("heads", heads)
        if head_dim is None:
            if dim % heads:
                raise InvalidArgument(
                    f"dim={dim} is no multiple of heads={heads}; give head_dim, or other heads"
                )
            head_dim = dim // heads
        self.dim, self.heads = dim, heads
        self.pattern, self.prob_map, self.scale = pattern, resolve_prob_map(prob_map), scale
        inner = heads * at_least_one("head_dim", head_dim)
        self.q_proj = nn.Linear(dim, inner, bias=query_bias, dtype=dtype, device=device)
        self.k_proj = nn.Linear(dim, inner, bias=False, dtype=dtype, device=device)
        self.v_proj = nn.Linear(dim, inner, bias=False, dtype=dtype, device=device)
        self.o_proj = nn.Linear(inner, dim, bias=False, dtype=dtype, device=device)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, dim) -> (batch, tokens, dim)."""
        weights = HeadWeights(
            self.q_proj.weight,
            self.q_proj.bias,
            self.k_proj.weight,
            self.v_proj.weight,
            self.o_proj.weight,
        )
        return multi_head(
            x,
            weights,
            heads=self.heads,
            pattern=self.pattern,
            prob_map=self.prob_map,
            scale=self.scale,
        )
