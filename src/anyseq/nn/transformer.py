"""A trainable Transformer of a design: encoder or causal decoder."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import nn
from torch.nn.functional import embedding, layer_norm, linear, rms_norm

from anyseq.base import at_least_one, one_of
from anyseq.design import Design
from anyseq.errors import InvalidArgument
from anyseq.nn.attention import Attention
from anyseq.nn.attention_position import Gain
from anyseq.nn.block import NORMS, Block, BlockNorm
from anyseq.nn.cache import Cache
from anyseq.nn.feedforward import FeedForward
from anyseq.nn.generate import generate
from anyseq.nn.input_position import INIT_STD, input_position
from anyseq.nn.mixers import Mixer
from anyseq.nn.of_layer import MixerMaker
from anyseq.nn.old_mixers import OldMixers, from_old_mixers
from anyseq.nn.shared import SharedBias, insides


class Transformer(nn.Module):
    """`depth` blocks of a design, for sequences of up to `design.tokens` tokens.

    Without `vocab` it maps (batch, tokens, dim) to (batch, tokens, dim). With `vocab` it maps ids
    (batch, tokens) to logits (batch, tokens, vocab); the embedding is also the last weight (tied),
    and so the head of a design that has one. Without `vocab` the head is a learned (dim, dim) map.
    All outputs are given, whichever of them `design.readout` says count.

    Block i is made of layer i mod p of the design's p layers: its pattern, what its position does
    inside attention, its map, sinks, mixer and feed-forward half. There is no norm after the last
    block but `design.final_norm`.

    norm: the layer norms of blocks, "pre", "post", "sandwich" or "none", the papers' block (see
        `Block`); the design's `block_norm` unless given, or "pre" if that says nothing.
    hidden: the size of the hidden layer, 4 dim unless given.
    heads, head_dim: of attention and of linear attention; kv_heads and backend: of attention.
    causal: token i sees tokens 0, ..., i at most, whatever the patterns; a convolution ends at the
        token.
    shared_bias: all layers that learn biases of offsets share one table of them, as T5's do and
        those of URPE's published experiments, instead of one each; for RelativeBias and T5Bias,
        under URPE or not.
    dropout: on attention weights and on what each half of a block adds.
    mixers: deprecated; the layers of the design say it.
    """

    def __init__(
        self,
        design: Design,
        dim: int,
        depth: int,
        heads: int = 1,
        *,
        mixers: OldMixers | None = None,
        norm: BlockNorm | None = None,
        vocab: int | None = None,
        hidden: int | None = None,
        head_dim: int | None = None,
        kv_heads: int | None = None,
        causal: bool = False,
        shared_bias: bool = False,
        dropout: float = 0.0,
        backend: str = "auto",
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        at_least_one("dim", dim)
        if at_least_one("depth", depth) != (design.depth or depth):
            raise InvalidArgument(
                f"depth={depth}, but the design has depth={design.depth}; expected equal ones"
            )
        if design.domain == "ids" and vocab is None:
            raise InvalidArgument(
                "vocab=None, but the design has domain='ids'; expected the number of ids"
            )
        norm = _agreed(norm, design)
        given: list[Mixer | None] = [None] * depth
        if mixers is not None:
            design, given = from_old_mixers(design, mixers, depth=depth, dim=dim, causal=causal)
        self.design, self.dim, self.causal, self.vocab = design, dim, causal, vocab
        self.norm = norm
        positions = design.size
        hidden = 4 * dim if hidden is None else at_least_one("hidden", hidden)

        def learned(*shape: int) -> nn.Parameter:
            empty = torch.empty(*shape, dtype=dtype, device=device)
            return nn.Parameter(nn.init.normal_(empty, std=INIT_STD))

        self.embedding = None if vocab is None else learned(at_least_one("vocab", vocab), dim)
        self.bos = learned(dim) if design.bos else None
        self.position = input_position(
            design.input_position, positions, dim, dtype=dtype, device=device
        )

        cycle = design.layer_cycle
        layers = [cycle[layer % len(cycle)] for layer in range(depth)]
        self._inside = insides([layer.position for layer in layers], shared_bias)
        gained = any(inside.gain for inside in self._inside)
        self.gain = Gain(heads, positions, dtype=dtype, device=device) if gained else None
        biases = next((inside.bias for inside in self._inside if inside.bias is not None), None)
        self.bias = None
        if biases is not None:
            self.bias = SharedBias(biases, heads, positions, dtype=dtype, device=device)

        mixer_of = MixerMaker(
            dim, heads, head_dim, kv_heads, positions, causal, dropout, backend, dtype, device
        )
        self.blocks = nn.ModuleList(
            Block(
                mixer_of(layer, inside.own) if module is None else module,
                FeedForward(dim, hidden, dtype=dtype, device=device) if layer.feedforward else None,
                norm=norm,
                dropout=dropout,
            )
            for layer, inside, module in zip(layers, self._inside, given, strict=True)
        )
        self.final_norm = _learned_norm(design.final_norm, dim, dtype, device)
        self.head = None
        if design.head and vocab is None:
            self.head = nn.Linear(dim, dim, dtype=dtype, device=device)

    def forward(
        self,
        x: torch.Tensor,
        *,
        key_mask: torch.Tensor | None = None,
        cache: Cache | None = None,
    ) -> torch.Tensor:
        """Ids (batch, tokens) to logits, or features (batch, tokens, dim) to features.

        key_mask: (batch, tokens) bool, False for padding, which no token sees.
        cache: what came before x; x is added to it. For generation.
        """
        x = self._features(x)
        first = 0 if cache is None else cache.length
        self._check_length(x, key_mask, cache)
        begins = self.bos is not None and first == 0
        if self.bos is not None and begins:
            x = torch.cat([self.bos.expand(len(x), 1, -1), x], dim=1)
            if key_mask is not None:
                key_mask = torch.cat([key_mask.new_ones(len(x), 1), key_mask], dim=1)
        if self.position is not None:
            x = self.position(x, first)
        gain = None if self.gain is None else self.gain()
        bias = None if self.bias is None else self.bias(x, first)
        for layer, block in enumerate(self.blocks):
            told: dict[str, Any] = {}
            inside = self._inside[layer]
            if isinstance(block.mixer, Attention):
                told |= {"gain": gain} if inside.gain else {}
                told |= {"bias": bias} if inside.bias is not None else {}
            remembered = None if cache is None else cache.layers[layer]
            x = block(x, key_mask=key_mask, cache=remembered, **told)
        return self._read(x[:, 1:] if begins else x)

    def generate(
        self,
        prompt: torch.Tensor,
        tokens: int,
        *,
        temperature: float = 0.0,
        generator: torch.Generator | None = None,
        cache: bool = True,
    ) -> torch.Tensor:
        """The prompt (batch, n) of ids with `tokens` further ids: (batch, n + tokens).

        temperature: 0 takes the likeliest id; otherwise ids are drawn from softmax(logits /
            temperature) with `generator`.
        cache: compute each token once. The ids are the same without, only slower.
        """
        return generate(
            self, prompt, tokens, temperature=temperature, generator=generator, cache=cache
        )

    def _read(self, x: torch.Tensor) -> torch.Tensor:
        """The outputs, from what the last block gives."""
        if self.design.final_norm == "layernorm":
            x = layer_norm(x, (self.dim,))
        elif self.design.final_norm == "rmsnorm":
            x = rms_norm(x, (self.dim,))
        elif self.final_norm is not None:
            x = self.final_norm(x)
        if self.embedding is not None:
            return linear(x, self.embedding)
        return x if self.head is None else self.head(x)

    def _features(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, dim), from ids or checked."""
        if self.embedding is not None:
            if x.ndim != 2 or x.dtype.is_floating_point or x.dtype == torch.bool:
                raise InvalidArgument(
                    f"x of dtype {x.dtype} and shape {tuple(x.shape)}: expected ids, whole numbers "
                    "of shape (batch, tokens)"
                )
            return embedding(x, self.embedding)
        if x.ndim != 3 or x.shape[2] != self.dim:
            raise InvalidArgument(
                f"x of shape {tuple(x.shape)}: expected (batch, tokens, dim) with dim={self.dim}"
            )
        return x

    def _check_length(
        self, x: torch.Tensor, key_mask: torch.Tensor | None, cache: Cache | None
    ) -> None:
        bos = self.design.bos
        before = 0 if cache is None or cache.length == 0 else cache.length - bos
        n = before + x.shape[1]
        if not 1 <= n <= self.design.tokens:
            raise InvalidArgument(
                f"x has {n} tokens, the design has tokens={self.design.tokens}; expected from 1 to "
                "that many, or a Design with more"
            )
        for pattern in self.design.cycle:
            if pattern.natural_length not in (None, n + bos):
                raise InvalidArgument(
                    f"x has {n} tokens{' and BOS' if bos else ''}, but pattern {pattern!r} is for "
                    f"{pattern.natural_length} exactly"
                )
        if key_mask is not None and cache is not None:
            raise InvalidArgument("key_mask: not together with cache; generate from equal lengths")
        if key_mask is not None and key_mask.shape != x.shape[:2]:
            raise InvalidArgument(
                f"key_mask of shape {tuple(key_mask.shape)}: expected (batch, tokens) = "
                f"{tuple(x.shape[:2])}"
            )


def _agreed(norm: BlockNorm | None, design: Design) -> BlockNorm:
    """The norms of the blocks, as both say it."""
    said = design.block_norm
    if norm is None:
        return "pre" if said is None else cast(BlockNorm, said)
    one_of("norm", norm, NORMS)
    if said not in (None, norm):
        raise InvalidArgument(
            f"norm={norm!r}, but the design has block_norm={said!r}; expected equal ones, or leave "
            "norm out"
        )
    return norm


def _learned_norm(
    name: str | None, dim: int, dtype: torch.dtype | None, device: torch.device | str | None
) -> nn.Module | None:
    if name == "learned-layernorm":
        return nn.LayerNorm(dim, dtype=dtype, device=device)
    return nn.RMSNorm(dim, dtype=dtype, device=device) if name == "learned-rmsnorm" else None
