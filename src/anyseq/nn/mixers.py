"""Ways to mix tokens that are not attention (paper A's comparison); the residual is the block's.

Each takes (batch, tokens, dim). A key_mask (batch, tokens), False for padding, keeps padded tokens
out of the others. With a cache, a mixer keeps its inputs and computes the new rows only.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import nn
from torch.nn.functional import conv1d, pad

from anyseq.base import at_least_one
from anyseq.errors import InvalidArgument
from anyseq.nn.cache import LayerCache
from anyseq.nn.sight import Sight
from anyseq.patterns import PatternLike


class Mixer(Protocol):
    """What a Block needs of its mixer half; `Attention` is one too."""

    dim: int
    causal: bool

    def __call__(
        self,
        x: torch.Tensor,
        *,
        key_mask: torch.Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> torch.Tensor: ...

    def parameters(self) -> Any: ...


class BilinearProjection(nn.Module):
    """W_P X W_O, with W_P (tokens, tokens) learned where token i gets content from token j, and 0
    elsewhere.

    n tokens use the first n rows and columns.

    pattern: which tokens each token gets content from; all unless given.
    causal: none after itself.
    """

    def __init__(
        self,
        dim: int,
        tokens: int,
        *,
        pattern: PatternLike = None,
        causal: bool = False,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.dim, self.tokens, self.causal = at_least_one("dim", dim), tokens, causal
        at_least_one("tokens", tokens)
        self.sight = Sight.without_heads(type(self).__name__, pattern, causal)
        self.token_weight = nn.Parameter(torch.empty(tokens, tokens, dtype=dtype, device=device))
        nn.init.normal_(self.token_weight, std=tokens**-0.5)  # keeps the size of random inputs
        self.o_proj = nn.Linear(dim, dim, bias=False, dtype=dtype, device=device)

    def forward(
        self,
        x: torch.Tensor,
        *,
        key_mask: torch.Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> torch.Tensor:
        """(batch, tokens, dim) -> (batch, tokens, dim)."""
        first, seen = _remembered(without_padding(x, key_mask, cache), cache)
        n = seen.shape[1]
        if n > self.tokens:
            raise InvalidArgument(f"x has {n} tokens, W_P was made for {self.tokens}")
        weight = self.token_weight[first:n, :n]
        if self.sight.span == "past":
            weight = weight.tril(first)
        elif self.sight.span is None:
            weight = weight * self.sight.mask(first, n, x.device)[0, 0]
        out: torch.Tensor = self.o_proj(weight @ seen)
        return out


class SeparableConv(nn.Module):
    """A convolution over `width` tokens for each feature by itself, then W_O.

    The window is centred (one longer to the right if `width` is even) and zero outside the
    sequence; `causal` ends it at the token itself.
    """

    def __init__(
        self,
        dim: int,
        width: int = 7,
        *,
        causal: bool = False,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.dim, self.width, self.causal = at_least_one("dim", dim), width, causal
        at_least_one("width", width)
        self.token_weight = nn.Parameter(torch.empty(dim, width, dtype=dtype, device=device))
        nn.init.normal_(self.token_weight, std=width**-0.5)  # keeps the size of random inputs
        self.o_proj = nn.Linear(dim, dim, bias=False, dtype=dtype, device=device)

    def forward(
        self,
        x: torch.Tensor,
        *,
        key_mask: torch.Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> torch.Tensor:
        """(batch, tokens, dim) -> (batch, tokens, dim)."""
        first, seen = _remembered(without_padding(x, key_mask, cache), cache)
        left = self.width - 1 if self.causal else (self.width - 1) // 2
        padded = pad(seen.transpose(1, 2), (left, self.width - 1 - left))
        mixed = conv1d(padded[..., first:], self.token_weight[:, None], groups=self.dim)
        out: torch.Tensor = self.o_proj(mixed.transpose(1, 2))
        return out


class AverageMixer(nn.Module):
    """The mean of the tokens that the pattern allows, then W_V W_O: attention whose weights are all
    equal. A token without any gets 0.

    Sums are running ones where the pattern allows all tokens or all before; otherwise the (tokens,
    tokens) mask is made.

    pattern: which tokens each token gets content from; all unless given.
    causal: none after itself.
    """

    def __init__(
        self,
        dim: int,
        *,
        pattern: PatternLike = None,
        causal: bool = False,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.dim, self.causal = at_least_one("dim", dim), causal
        self.sight = Sight.without_heads(type(self).__name__, pattern, causal)
        self.v_proj = nn.Linear(dim, dim, bias=False, dtype=dtype, device=device)
        self.o_proj = nn.Linear(dim, dim, bias=False, dtype=dtype, device=device)

    def forward(
        self,
        x: torch.Tensor,
        *,
        key_mask: torch.Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> torch.Tensor:
        """(batch, tokens, dim) -> (batch, tokens, dim)."""
        first, seen = _remembered(without_padding(x, key_mask, cache), cache)
        real = seen.new_ones(seen.shape[:2]) if key_mask is None else key_mask.to(seen.dtype)
        total, count = self._sum(seen, first), self._sum(real[..., None], first)
        mean = total / count.clamp(min=1.0)  # no token at all: 0
        out: torch.Tensor = self.o_proj(self.v_proj(mean.expand_as(x)))
        return out

    def _sum(self, seen: torch.Tensor, first: int) -> torch.Tensor:
        """The mean over the tokens allowed for each token from `first` on; (batch, 1, ...) if all
        are."""
        if self.sight.span == "all":
            return seen.sum(1, keepdim=True)
        if self.sight.span == "past":
            return seen.cumsum(1)[:, first:]
        return self.sight.mask(first, seen.shape[1], seen.device)[0, 0].to(seen.dtype) @ seen


def without_padding(
    x: torch.Tensor, key_mask: torch.Tensor | None, cache: LayerCache | None
) -> torch.Tensor:
    """x with 0 in place of padding."""
    if key_mask is None:
        return x
    if cache is not None:
        raise InvalidArgument("key_mask: not together with cache; generate from equal lengths")
    if key_mask.dtype != torch.bool or key_mask.shape != x.shape[:2]:
        raise InvalidArgument(
            f"key_mask of dtype {key_mask.dtype} and shape {tuple(key_mask.shape)}: expected bool "
            f"of shape (batch, tokens) = {tuple(x.shape[:2])}, True = a real token"
        )
    return x.masked_fill(~key_mask[..., None], 0.0)


def _remembered(x: torch.Tensor, cache: LayerCache | None) -> tuple[int, torch.Tensor]:
    """The tokens that are remembered, x at their end, and how many come before x."""
    if cache is None:
        return 0, x
    (seen,) = cache.append(x)
    return seen.shape[1] - x.shape[1], seen
