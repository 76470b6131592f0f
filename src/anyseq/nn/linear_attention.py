"""Linear attention: weights φ(q)·φ(k), for which sums over the past suffice."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import pad

from anyseq.base import at_least_one
from anyseq.errors import InvalidArgument
from anyseq.nn.cache import LayerCache
from anyseq.nn.mixers import without_padding
from anyseq.nn.sight import Sight
from anyseq.patterns import PatternLike

_CHUNK = 64  # tokens whose weights are made; sums of chunks before them are kept


class LinearAttentionMixer(nn.Module):
    """Σ_j w_ij x_j W_V W_O with w_ij = φ(x_i W_Q)·φ(x_j W_K) / head_dim, over the tokens j that i
    attends to, for each head; φ(t) = elu(t) + 1, at least the rounding of 1, so that it is
    positive.

    `normalised` divides by Σ_j w_ij; a token that attends to none gets 0.

    Where a token attends to all tokens or to all before it, time and memory grow with the number of
    tokens; for other patterns, and for new tokens beside a cache, the weights of all pairs are
    made.

    pattern: which tokens each token gets content from; all unless given.
    causal: none after itself.
    """

    def __init__(
        self,
        dim: int,
        heads: int = 1,
        head_dim: int | None = None,
        *,
        pattern: PatternLike = None,
        causal: bool = False,
        normalised: bool = True,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        if head_dim is None and at_least_one("dim", dim) % at_least_one("heads", heads):
            raise InvalidArgument(
                f"dim={dim} is not a multiple of heads={heads}; give head_dim, or other heads"
            )
        head_dim = dim // heads if head_dim is None else at_least_one("head_dim", head_dim)
        self.dim, self.heads, self.head_dim = dim, heads, head_dim
        self.sight, self.causal, self.normalised = Sight.of(pattern, causal), causal, normalised
        inner = heads * head_dim
        self.q_proj, self.k_proj, self.v_proj = (
            nn.Linear(dim, inner, bias=False, dtype=dtype, device=device) for _ in range(3)
        )
        self.o_proj = nn.Linear(inner, dim, bias=False, dtype=dtype, device=device)

    def forward(
        self,
        x: torch.Tensor,
        *,
        key_mask: torch.Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> torch.Tensor:
        """(batch, tokens, dim) -> (batch, tokens, dim)."""
        x = without_padding(x, key_mask, cache)
        q, k, v = (self._split(part(x)) for part in (self.q_proj, self.k_proj, self.v_proj))
        q, k = _positive(q) / self.head_dim, _positive(k)
        if key_mask is not None:
            k = k.masked_fill(~key_mask[:, None, :, None], 0.0)
        if self.normalised:  # a further feature, 1 everywhere, has the sum of weights mixed into it
            v = pad(v, (0, 1), value=1.0)
        first = 0 if cache is None else cache.length
        if cache is not None:
            k, v = cache.append(k, v)
        mixed = self._mix(q, k, v, first)
        if self.normalised:
            mixed, total = mixed[..., :-1], mixed[..., -1:]
            mixed = mixed / total.masked_fill(total == 0, 1.0)
        out: torch.Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return out

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, heads·size) -> (batch, heads, tokens, size)."""
        return x.view(*x.shape[:2], self.heads, self.head_dim).transpose(1, 2)

    def _mix(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, first: int) -> torch.Tensor:
        """Σ_j q_i·k_j v_j, (batch, heads, n - first, size) from all n keys and values."""
        if self.sight.span == "all":
            return q @ (k.mT @ v)
        if self.sight.span == "past" and first == 0:
            return sums_of_the_past(q, k, v)
        batch, heads, n = k.shape[:3]
        mask = self.sight.mask(first, n, q.device, batch=batch, heads=heads)
        return (q @ k.mT).masked_fill(~mask, 0.0) @ v


def sums_of_the_past(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Σ_{j <= i} q_i·k_j v_j for all tokens i, from (batch, heads, n, size): the weights inside
    each chunk of tokens, and Σ k_j v_j^T over the chunks before it."""
    n = q.shape[2]
    q, k, v = (pad(t, (0, 0, 0, -n % _CHUNK)).unflatten(2, (-1, _CHUNK)) for t in (q, k, v))
    inside = (q @ k.mT).tril() @ v
    sums = (k.mT @ v).cumsum(2)
    before = pad(sums[:, :, :-1], (0, 0, 0, 0, 1, 0))
    return (inside + q @ before).flatten(2, 3)[:, :, :n]


def _positive(x: torch.Tensor) -> torch.Tensor:
    """elu(x) + 1, at least the rounding of 1. If it could vanish, so could sums of weights, and
    gradients of a quotient would overflow; adding a number to the sums instead would let weights no
    longer sum to 1."""
    least = torch.finfo(x.dtype).eps
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp().clamp(min=least))
