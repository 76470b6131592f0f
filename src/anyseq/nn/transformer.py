"""A trainable Transformer of a design: encoder or causal decoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import nn
from torch.nn.functional import embedding, layer_norm, linear, rms_norm

from anyseq.base import at_least_one, one_of
from anyseq.design import Design
from anyseq.errors import InvalidArgument
from anyseq.nn.attention import Attention
from anyseq.nn.attention_position import (
    Gain,
    SharedBias,
    inside_attention,
    without_learned_bias,
)
from anyseq.nn.block import Block
from anyseq.nn.cache import Cache
from anyseq.nn.feedforward import FeedForward
from anyseq.nn.generate import generate
from anyseq.nn.input_position import INIT_STD, input_position
from anyseq.nn.mixers import AverageMixer, BilinearProjection, Mixer, SeparableConv

MIXERS = ("attention", "bilinear", "conv", "average")


class Transformer(nn.Module):
    """`depth` blocks of a design, for sequences of up to `design.tokens` tokens.

    Without `vocab` it maps (batch, tokens, dim) to (batch, tokens, dim). With `vocab` it maps ids
    (batch, tokens) to logits (batch, tokens, vocab); the embedding is also the last weight (tied).
    There is no norm after the last block but `design.final_norm`.

    mixers: one name or module for each layer, or fewer that the layers cycle through: "attention",
        "bilinear", "conv", "average", or a module such as SeparableConv(dim, 15), which is used
        as it is. Layer i uses pattern i mod p of the design's cycle if it is "attention"; the
        others know no pattern and no position but that of the input.
    norm: "pre" is a layer norm before each half of a block, "none" the papers' block.
    hidden: the size of the hidden layer, 4 dim unless given.
    causal: token i sees tokens 0, ..., i at most, whatever the patterns.
    shared_bias: all layers learn one table of biases, as T5's do and those of URPE's published
        experiments, instead of one each; for RelativeBias and T5Bias, under URPE or not.
    dropout: on attention weights and on what each half of a block adds.
    """

    def __init__(
        self,
        design: Design,
        dim: int,
        depth: int,
        heads: int = 1,
        *,
        mixers: Sequence[str | Mixer] | str | None = None,
        norm: Literal["pre", "none"] = "pre",
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
        self.design, self.dim, self.causal, self.vocab = design, dim, causal, vocab
        positions = design.size
        hidden = 4 * dim if hidden is None else at_least_one("hidden", hidden)

        def learned(*shape: int) -> nn.Parameter:
            empty = torch.empty(*shape, dtype=dtype, device=device)
            return nn.Parameter(nn.init.normal_(empty, std=INIT_STD))

        self.embedding = None if vocab is None else learned(at_least_one("vocab", vocab), dim)
        self.bos = learned(dim) if design.bos else None
        self.position = input_position(design.position, positions, dim, dtype=dtype, device=device)

        inside, shared_gain = inside_attention(design.position)
        self.gain = Gain(heads, positions, dtype=dtype, device=device) if shared_gain else None
        self.bias = None
        if shared_bias:
            inside, base = without_learned_bias(inside)
            self.bias = SharedBias(base, heads, positions, dtype=dtype, device=device)

        def mixer(layer: int, name: str | Mixer) -> Mixer:
            if not isinstance(name, str):
                return _check_given(name, dim, causal)
            match one_of("mixers", name, MIXERS):
                case "bilinear":
                    return BilinearProjection(
                        dim, positions, causal=causal, dtype=dtype, device=device
                    )
                case "conv":
                    return SeparableConv(dim, causal=causal, dtype=dtype, device=device)
                case "average":
                    return AverageMixer(dim, causal=causal, dtype=dtype, device=device)
            return Attention(
                dim,
                heads,
                head_dim,
                kv_heads=kv_heads,
                pattern=design.cycle[layer % len(design.cycle)],
                causal=causal,
                prob_map=design.probability,
                position=inside,
                tokens=positions,
                sinks=design.sinks,
                dropout=dropout,
                backend=backend,
                dtype=dtype,
                device=device,
            )

        self.blocks = nn.ModuleList(
            Block(
                mixer(layer, name),
                FeedForward(dim, hidden, dtype=dtype, device=device)
                if design.feedforward
                else None,
                norm=norm,
                dropout=dropout,
            )
            for layer, name in enumerate(_cycled(mixers, depth))
        )

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
        terms = {"gain": gain} if bias is None else {"bias": bias, "gain": gain}
        for layer, block in enumerate(self.blocks):
            told = terms if isinstance(block.mixer, Attention) else {}
            remembered = None if cache is None else cache.layers[layer]
            x = block(x, key_mask=key_mask, cache=remembered, **told)
        x = x[:, 1:] if begins else x
        if self.design.final_norm == "layernorm":
            x = layer_norm(x, (self.dim,))
        elif self.design.final_norm == "rmsnorm":
            x = rms_norm(x, (self.dim,))
        return x if self.embedding is None else linear(x, self.embedding)

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


def _cycled(mixers: Sequence[str | Mixer] | str | None, depth: int) -> list[str | Mixer]:
    """One entry per layer."""
    given = ["attention"] if mixers is None else [mixers] if isinstance(mixers, str) else [*mixers]
    if not given or depth % len(given):
        raise InvalidArgument(
            f"mixers: {len(given)} for depth={depth}; expected one per layer, or a number that "
            "divides depth"
        )
    return [given[layer % len(given)] for layer in range(depth)]


def _check_given(mixer: Mixer, dim: int, causal: bool) -> Mixer:
    if not isinstance(mixer, nn.Module) or not hasattr(mixer, "dim"):
        names = ", ".join(repr(name) for name in MIXERS)
        raise InvalidArgument(f"mixers: {mixer!r}; expected {names}, or a mixer module")
    if mixer.dim != dim:
        raise InvalidArgument(f"mixers: {type(mixer).__name__} has dim {mixer.dim}, expected {dim}")
    if mixer.causal is not causal:
        raise InvalidArgument(
            f"mixers: {type(mixer).__name__} has causal={mixer.causal}, the Transformer has "
            f"causal={causal}; expected equal ones"
        )
    return mixer
