"""An encoder and a decoder over sparse patterns, from anyseq's parts and from torch's own."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import nn
from torch.nn.functional import linear

from anyseq.design import Design
from anyseq.experiments.peer import seen_by_heads
from anyseq.experiments.subwords import MASK, PAD
from anyseq.experiments.torch_layer import whole
from anyseq.nn import Attention, Block, FeedForward, Transformer
from anyseq.ops import attention
from anyseq.patterns import Pattern

START, END = MASK, PAD
"""The ids before and after a translation."""


class CrossAttention(nn.Module):
    """Tokens x attend to all tokens of another sequence; the residual is the block's."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.dim, self.heads, self.causal = dim, heads, False
        self.q_proj = nn.Linear(dim, dim)
        self.kv_proj = nn.Linear(dim, 2 * dim, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x: torch.Tensor, *, read: torch.Tensor) -> torch.Tensor:
        """x: (batch, n, dim), read: (batch, m, dim) -> (batch, n, dim)."""
        q = self.q_proj(x).unflatten(2, (self.heads, -1)).transpose(1, 2)
        k, v = self.kv_proj(read).unflatten(2, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        out: torch.Tensor = self.o_proj(attention(q, k, v).transpose(1, 2).flatten(2))
        return out


class EncoderDecoder(nn.Module):
    """One embedding for what is read, what is written, and the logits; learned positions.

    Padding is a token as any other, since a pattern's hubs may lie there.
    """

    def __init__(self, tokens: int, dim: int, vocab: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, dim)
        nn.init.normal_(self.embedding.weight, std=dim**-0.5)  # logits of size 1 at the start
        self.positions = nn.Parameter(torch.randn(2, tokens, dim) * 0.02)
        self.read_norm, self.norm = nn.LayerNorm(dim), nn.LayerNorm(dim)

    @abstractmethod
    def encoded(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, dim) -> (batch, tokens, dim)."""

    @abstractmethod
    def decoded(self, x: torch.Tensor, read: torch.Tensor) -> torch.Tensor:
        """x, read: (batch, tokens, dim) -> (batch, tokens, dim); token i of x attends to 0, ...,
        i."""

    def forward(self, source: torch.Tensor, ids: torch.Tensor | None = None) -> torch.Tensor:
        """source, ids: (batch, tokens) -> logits (batch, tokens, vocab) of what follows each of the
        ids. Without ids: those of the translation that is likeliest token by token."""
        read = self.read_norm(self.encoded(self.embedding(source) + self.positions[0]))
        return self._greedy(read) if ids is None else self._logits(ids, read)

    def _logits(self, ids: torch.Tensor, read: torch.Tensor) -> torch.Tensor:
        x = self.decoded(self.embedding(ids) + self.positions[1], read)
        return linear(self.norm(x), self.embedding.weight)

    def _greedy(self, read: torch.Tensor) -> torch.Tensor:
        """At full length in every step: rows of a pattern may depend on the length. Always the same
        number of steps: processes that share the weights must not wait for each other."""
        ids = torch.full(read.shape[:2], END, device=read.device)
        ids[:, 0] = START
        for place in range(1, ids.shape[1]):
            ids[:, place] = self._logits(ids, read)[:, place - 1].argmax(-1)
        return ids[:, 1:]


class _DecoderLayer(nn.Module):
    """Attention to what is written so far, then to what is read, then a feed-forward half."""

    def __init__(self, dim: int, heads: int, pattern: Pattern, dropout: float) -> None:
        super().__init__()
        own = Attention(dim, heads, pattern=pattern, causal=True, dropout=dropout)
        self.written = Block(own, norm="pre", dropout=dropout)
        self.read = Block(
            CrossAttention(dim, heads), FeedForward(dim, 4 * dim), norm="pre", dropout=dropout
        )

    def forward(self, x: torch.Tensor, read: torch.Tensor) -> torch.Tensor:
        """x, read: (batch, tokens, dim) -> (batch, tokens, dim)."""
        y: torch.Tensor = self.read(self.written(x), read=read)
        return y


class Translator(EncoderDecoder):
    """A design's patterns in the encoder and in the decoder; cross-attention is dense."""

    def __init__(
        self, design: Design, dim: int, depth: int, heads: int, *, vocab: int, dropout: float
    ) -> None:
        super().__init__(design.tokens, dim, vocab)
        self.encoder = Transformer(design, dim, depth, heads, dropout=dropout)
        self.decoder = nn.ModuleList(
            _DecoderLayer(dim, heads, design.cycle[layer % len(design.cycle)], dropout)
            for layer in range(depth)
        )

    def encoded(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.encoder(x)
        return y

    def decoded(self, x: torch.Tensor, read: torch.Tensor) -> torch.Tensor:
        for layer in self.decoder:
            x = layer(x, read)
        return x


class TorchTranslator(EncoderDecoder):
    """The same from torch's own layers; a pattern is a dense mask here, one for each head if they
    differ."""

    def __init__(
        self, design: Design, dim: int, depth: int, heads: int, *, vocab: int, dropout: float
    ) -> None:
        super().__init__(design.tokens, dim, vocab)
        sizes = (dim, heads, 4 * dim, dropout)
        self.encoder = nn.ModuleList(
            nn.TransformerEncoderLayer(*sizes, batch_first=True, norm_first=True)
            for _ in range(depth)
        )
        self.decoder = nn.ModuleList(
            nn.TransformerDecoderLayer(*sizes, batch_first=True, norm_first=True)
            for _ in range(depth)
        )
        n, cycle = design.tokens, design.cycle
        later = torch.ones(n, n, dtype=torch.bool).triu(1)
        for layer in range(depth):
            hidden = ~seen_by_heads(cycle[layer % len(cycle)], n, heads)
            self.register_buffer(f"hidden_{layer}", hidden if hidden.any() else None)
            self.register_buffer(f"later_{layer}", hidden | later)

    def encoded(self, x: torch.Tensor) -> torch.Tensor:
        for index, layer in enumerate(self.encoder):
            x = layer(x, src_mask=whole(getattr(self, f"hidden_{index}"), len(x)))
        return x

    def decoded(self, x: torch.Tensor, read: torch.Tensor) -> torch.Tensor:
        for index, layer in enumerate(self.decoder):
            x = layer(x, read, tgt_mask=whole(getattr(self, f"later_{index}"), len(x)))
        return x
