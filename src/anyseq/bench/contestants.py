"""Attention as computed by anyseq and others, each ready to run on n tokens.

Operators work on q, k, v of shape (batch, 4, n, 64), with one sequence unless given; layers on x of
shape (1, n, 256), with their own projections. All in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from anyseq import nn
from anyseq.base import generator
from anyseq.ops import attention
from anyseq.patterns import Pattern, Window
from anyseq.positions import Toeplitz

HEADS, SIZE = 4, 64


@dataclass(frozen=True)
class Run:
    """A computation: forward gives the output, `inputs` are what it is differentiated by, and
    `expected`, unless None, what the formula gives in float64."""

    forward: Callable[[], torch.Tensor]
    inputs: list[torch.Tensor]
    expected: Callable[[], torch.Tensor] | None

    def train(self) -> None:
        """Forward and backward."""
        out = self.forward()
        torch.autograd.grad(out, self.inputs, torch.ones_like(out))

    def infer(self) -> None:
        """Forward only."""
        with torch.no_grad():
            self.forward()

    def matches(self) -> bool | None:
        """Whether the output is that of the formula, up to what float32 can hold."""
        if self.expected is None:
            return None
        with torch.no_grad():
            wanted = self.expected()
            apart = (self.forward().double() - wanted).abs().max()
        # Sums of n products of numbers of size 1: an error of √n roundings, times a margin of 100.
        roundings = wanted.shape[-2] ** 0.5 * torch.finfo(torch.float32).eps
        return bool(apart <= 100 * roundings * wanted.abs().max())


Build = Callable[[int], Run]


def qkv(n: int, batch: int = 1) -> list[torch.Tensor]:
    """Normal q, k, v, the same at every call."""
    rng = generator(0)
    return [torch.randn(batch, HEADS, n, SIZE, generator=rng).requires_grad_() for _ in range(3)]


def anyseq_operator(pattern: Pattern, backend: str, n: int, batch: int = 1) -> Run:
    q, k, v = qkv(n, batch)
    return Run(
        partial(attention, q, k, v, pattern=pattern, backend=backend),
        [q, k, v],
        partial(_formula, pattern, q, k, v),
    )


def masked_sdpa(pattern: Pattern, n: int, batch: int = 1) -> Run:
    q, k, v = qkv(n, batch)
    mask = pattern.mask(n)
    return Run(
        partial(scaled_dot_product_attention, q, k, v, attn_mask=mask),
        [q, k, v],
        partial(_formula, pattern, q, k, v),
    )


def dense_sdpa(n: int) -> Run:
    q, k, v = qkv(n)
    return Run(partial(scaled_dot_product_attention, q, k, v), [q, k, v], None)


def local_attention(radius: int, n: int) -> Run:
    from local_attention import LocalAttention

    q, k, v = qkv(n)
    layer = LocalAttention(
        radius, look_backward=1, look_forward=1, exact_windowsize=True, use_rotary_pos_emb=False
    )
    return Run(partial(layer, q, k, v), [q, k, v], partial(_formula, Window(radius), q, k, v))


def anyseq_layer(pattern: Pattern, n: int) -> Run:
    x, layer = _layer_input(n), _our_layer(pattern)
    return Run(partial(layer, x), [x, *layer.parameters()], partial(_layer_formula, layer, x))


def hf_longformer_layer(radius: int, n: int) -> Run:
    from transformers import LongformerConfig
    from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

    x, ours = _layer_input(n), _our_layer(Window(radius))
    config = LongformerConfig(
        hidden_size=HEADS * SIZE,
        num_attention_heads=HEADS,
        attention_window=[2 * radius],
        num_hidden_layers=1,
        attention_probs_dropout_prob=0.0,
    )
    layer = LongformerSelfAttention(config, 0)
    for theirs, own in (("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj")):
        with torch.no_grad():
            layer.get_parameter(f"{theirs}.weight").copy_(ours.get_parameter(f"{own}.weight"))
            layer.get_parameter(f"{theirs}.bias").zero_()
    nobody = torch.zeros(1, n, dtype=torch.bool)
    mask = torch.zeros(1, n)

    def forward() -> torch.Tensor:
        out: torch.Tensor = layer(
            x,
            attention_mask=mask,
            is_index_masked=nobody,
            is_index_global_attn=nobody,
            is_global_attn=False,
        )[0]
        return out

    used = [p for name, p in layer.named_parameters() if "global" not in name]
    return Run(forward, [x, *used], partial(_layer_formula, ours, x))


def hf_big_bird_layer(block: int, random: int, n: int) -> Run:
    from transformers import BigBirdConfig
    from transformers.models.big_bird.modeling_big_bird import (
        BigBirdBlockSparseAttention,
        BigBirdModel,
    )

    x = _layer_input(n)
    config = BigBirdConfig(
        hidden_size=HEADS * SIZE,
        num_attention_heads=HEADS,
        block_size=block,
        num_random_blocks=random,
        max_position_embeddings=n,
        attention_probs_dropout_prob=0.0,
    )
    layer = BigBirdBlockSparseAttention(config, seed=0)
    blocked, band, rows, columns = BigBirdModel.create_masks_for_block_sparse_attn(
        torch.ones(1, n), block
    )

    def forward() -> torch.Tensor:
        out: torch.Tensor = layer(x, band, rows, columns, blocked, blocked)[0]
        return out

    # Its random blocks are its own: there is no formula of ours to compare it with.
    return Run(forward, [x, *layer.parameters()], None)


def urpe(how: str, n: int, batch: int = 1) -> Run:
    """RelativeBias and URPE's gain. how: "anyseq", "formula", or "sdpa", which has the bias only,
    as a dense matrix that requires a gradient."""
    q, k, v = qkv(n, batch)
    rng = generator(1)
    bias = (0.02 * torch.randn(HEADS, 2 * n - 1, generator=rng)).requires_grad_()
    gain = (1 + 0.1 * torch.randn(HEADS, 2 * n - 1, generator=rng)).requires_grad_()
    if how == "sdpa":
        with torch.no_grad():
            dense = Toeplitz(bias).dense(n, n)[None].contiguous()
        dense.requires_grad_()
        plain = partial(scaled_dot_product_attention, q, k, v, attn_mask=dense)
        return Run(plain, [q, k, v, dense], None)
    terms = {"bias": Toeplitz(bias), "gain": Toeplitz(gain)}
    doubled = {name: Toeplitz(term.coefficients.double()) for name, term in terms.items()}
    backend = {"anyseq": "auto", "formula": "reference"}[how]
    return Run(
        lambda: attention(q, k, v, backend=backend, bias=terms["bias"], gain=terms["gain"]),
        [q, k, v, bias, gain],
        lambda: attention(
            q.double(),
            k.double(),
            v.double(),
            bias=doubled["bias"],
            gain=doubled["gain"],
            backend="reference",
        ),
    )


def missing(package: str) -> bool:
    """Whether a peer is not installed."""
    return find_spec(package) is None


def _formula(pattern: Pattern, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return attention(q.double(), k.double(), v.double(), pattern=pattern, backend="reference")


def _layer_input(n: int) -> torch.Tensor:
    return torch.randn(1, n, HEADS * SIZE, generator=generator(0)).requires_grad_()


def _our_layer(pattern: Pattern, **options: Any) -> nn.Attention:
    """The same weights at every call, whatever torch's own random state. Like the layers of others
    here it ends before the output projection."""
    layer = nn.Attention(HEADS * SIZE, HEADS, pattern=pattern, biases="", **options)
    layer.register_module("o_proj", torch.nn.Identity())
    rng = generator(2)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=rng) / (HEADS * SIZE) ** 0.5)
    return layer


def _layer_formula(layer: nn.Attention, x: torch.Tensor) -> torch.Tensor:
    """What the layer gives in float64."""
    exact = _our_layer(layer.pattern, backend="reference", dtype=torch.float64)
    exact.load_state_dict({name: value.double() for name, value in layer.state_dict().items()})
    out: torch.Tensor = exact(x.double())
    return out
