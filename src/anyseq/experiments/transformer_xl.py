"""Transformer-XL's relative attention, made of anyseq's layers.

The score of query i and key j <= i is q_i·k_j + u·k_j + (q_i + v)·W_R s_{i-j}, times 1/sqrt(size),
with u, v and W_R learned and s the sinusoidal vector of the distance. u is the query bias that
`Attention` has anyway; so q + u comes in here, and v - u is what is learned.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import pad

from anyseq.nn import Attention, AttentionPosition
from anyseq.positions import Sinusoidal


class DistanceScores(AttentionPosition):
    """(q_i + v)·W_R s_{i-j}, added to the scores; for causal layers: where j > i the number is
    meaningless."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.dim = dim
        self.to_keys = nn.Linear(dim, dim, bias=False)
        self.shift = nn.Parameter(torch.zeros(heads, 1, dim // heads))

    def bias(self, q: torch.Tensor, scale: float, keys: int, first: int) -> torch.Tensor:
        """(batch, heads, n, keys) for the queries q + u (batch, heads, n, size)."""
        heads, n, size = q.shape[1:]
        wide = torch.promote_types(q.dtype, torch.float32)  # half precision cannot count so far
        distances = torch.arange(keys - 1, -1, -1, dtype=wide, device=q.device)
        waves = Sinusoidal().table(distances, self.dim).to(self.shift.dtype)
        relative = self.to_keys(waves).view(keys, heads, size).permute(1, 2, 0)
        # column c has the distance keys-1-c. Query i wants it at key i + first - distance: moved
        # by n-1-i to the left, which is what reading rows of keys+1 numbers as rows of keys does
        scores = ((q + self.shift) * scale) @ relative
        moved: torch.Tensor = pad(scores, (1, 0)).flatten(-2)[..., n:].unflatten(-1, (n, keys))
        return moved


def xl_attention(dim: int, heads: int, dropout: float = 0.0) -> Attention:
    """A causal layer of it."""
    position = DistanceScores(dim, heads)
    return Attention(dim, heads, causal=True, position=position, dropout=dropout)
