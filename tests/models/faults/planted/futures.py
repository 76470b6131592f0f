"""Outputs that depend on later tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import anyseq as aq
from models.faults.planted.families import attentions, tiny
from models.faults.planted.fault import Model, Planted, causal
from models.faults.planted.plain import WIDTH, Attention, Gpt, Mlp, seeded

_NANOCHAT = "karpathy/nanochat#844"


class Centred(nn.Module):
    """Minus the mean of the sequence."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.mean(1, keepdim=True)


class NormOfTokens(nn.Module):
    """Each feature over the tokens, in place of each token over its features."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)


class Shift(nn.Module):
    """Half of the features come from a neighbour."""

    def __init__(self, by: int) -> None:
        super().__init__()
        self.by = by

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        own, other = x.chunk(2, -1)
        moved = torch.zeros_like(other)
        if self.by > 0:
            moved[:, self.by :] = other[:, : -self.by]
        else:
            moved[:, : self.by] = other[:, -self.by :]
        return torch.cat([own, moved], -1)


class Convolved(nn.Module):
    """A short convolution along the tokens; `late` pads on both sides."""

    def __init__(self, late: bool) -> None:
        super().__init__()
        self.late, self.kernel = late, nn.Conv1d(WIDTH, WIDTH, 3, groups=WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        padded = nn.functional.pad(x.transpose(1, 2), (1, 1) if self.late else (2, 0))
        mixed: torch.Tensor = self.kernel(padded).transpose(1, 2)
        return x + mixed


class ExpertChoice(nn.Module):
    """Each expert takes the half of the tokens that suits it best."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, 2)
        self.experts = nn.ModuleList(Mlp() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.router(x).sigmoid()
        chosen = torch.zeros_like(scores)
        chosen.scatter_(1, scores.topk(x.shape[1] // 2, dim=1).indices, 1.0)
        outs = torch.stack([expert(x) for expert in self.experts], -1)
        mixed: torch.Tensor = (outs * (chosen * scores)[:, :, None]).sum(-1)
        return mixed


class OneAhead(Attention):
    """Its triangle is one diagonal too large."""

    def mix(self, q: Any, k: Any, v: Any, allowed: torch.Tensor) -> torch.Tensor:
        tokens = q.shape[2]
        return super().mix(q, k, v, torch.ones(tokens, tokens, dtype=torch.bool).tril(1))


def _with_mix(part: nn.Module | None) -> Model:
    model = seeded(Gpt)
    model.mix = part or model.mix
    return model, aq.Causal()


def _centred(faulty: bool) -> Model:
    return _with_mix(Centred() if faulty else None)


def _normed(faulty: bool) -> Model:
    model = seeded(Gpt)
    block: Any = model.blocks[1]
    if faulty:
        block.norm2 = NormOfTokens()
    return model, aq.Causal()


def _shifted(faulty: bool) -> Model:
    return _with_mix(Shift(-1 if faulty else 1))


def _convolved(faulty: bool) -> Model:
    return _with_mix(seeded(lambda: Convolved(faulty)))


def _routed(faulty: bool) -> Model:
    model = seeded(Gpt)
    block: Any = model.blocks[2]
    block.mlp = seeded(ExpertChoice if faulty else Mlp)
    return model, aq.Causal()


def _ahead(faulty: bool) -> Model:
    model = seeded(Gpt)
    block: Any = model.blocks[1]
    block.attend = seeded(OneAhead if faulty else Attention)
    return model, aq.Causal()


def _not_causal(faulty: bool) -> Model:
    model = tiny("llama")
    if faulty:
        attention: Any = attentions(model, 2)[0]
        attention.is_causal = False
    return model, None


def _bidirectional(faulty: bool) -> Model:
    model = tiny("qwen3", is_causal=False) if faulty else tiny("qwen3")
    return model, tiny("qwen3").config


def _both_ways(faulty: bool) -> Model:
    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0)
            self.embed = nn.Embedding(100, 32)
            self.stack = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
            x = self.embed(ids)
            out: torch.Tensor = self.stack(x, None if faulty else mask.to(x.dtype))
            return out

    return seeded(Decoder), aq.Causal()


class Blockwise(Attention):
    """Long sequences in blocks of 16; the last token of each attends to one too many."""

    def mix(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, allowed: torch.Tensor
    ) -> torch.Tensor:
        place = torch.arange(q.shape[2])
        if len(place) >= 64:
            next_block = (place[:, None] + 1 == place) & (place % 16 == 0)
            allowed = allowed | next_block
        return super().mix(q, k, v, allowed)


def _blockwise(faulty: bool) -> Model:
    model = seeded(Gpt)
    if faulty:
        model.blocks[1].attend.__class__ = Blockwise
    return model, aq.Causal()


class PrefixGpt(Gpt):
    """Tokens before the separator, id 50, attend to one another."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        tokens = ids.shape[1]
        prefix = (ids == 50).flip(1).cumsum(1).flip(1).bool()
        allowed = torch.ones(tokens, tokens, dtype=torch.bool).tril()
        allowed = allowed | (prefix[:, :, None] & prefix[:, None, :])
        return self.body(ids, torch.arange(tokens)[None], allowed[:, None])


def _prefix(faulty: bool) -> Model:
    return seeded(PrefixGpt if faulty else Gpt), aq.Causal()


FAULTS = [
    Planted(
        "one layer is not causal", "llama",
        "is_causal is False in the second layer: sdpa, which gets no mask where the whole "
        "sequence is real, then attends to all of it.",
        _not_causal, "future", (2,), causal,
        ("rows", "documents", "cache", "implementations", "padding"),
        "huggingface/transformers#48760",
    ),
    Planted(
        "a decoder that is an encoder", "qwen3",
        "The config says is_causal=False, left from a conversion to an embedding model.",
        _bidirectional, "future", (1, 2, 3, 4), causal, ("cache", "documents"),
        "huggingface/transformers#48760",
    ),
    Planted(
        "a decoder that gets no mask", "nn.TransformerEncoder",
        "generate_square_subsequent_mask was called, and its result not passed on.",
        _both_ways, "future", (1, 2), causal, (), "huggingface/transformers#48760",
    ),
    Planted(
        "a triangle that is one diagonal too large", "plain decoder",
        "tril(1) in place of tril() in the second layer.",
        _ahead, "future", (2,), causal, (), _NANOCHAT,
    ),
    Planted(
        "the mean of the sequence is taken off", "plain decoder",
        "Embeddings are centred by the mean over all tokens of the sequence.",
        _centred, "future", (), causal, (), _NANOCHAT,
    ),
    Planted(
        "a norm over the tokens", "plain decoder",
        "In the second block features are normalised over the tokens, not over the features.",
        _normed, "future", (2,), causal, (), "karpathy/nanochat#845",
    ),
    Planted(
        "a token shift in the wrong direction", "plain decoder",
        "Half of the features of each token are those of the next one, not of the one before.",
        _shifted, "future", (), causal, (), "karpathy/nanochat#845",
    ),
    Planted(
        "a convolution padded on both sides", "plain decoder",
        "The short convolution along the tokens is padded with one token on either side.",
        _convolved, "future", (), causal, (), _NANOCHAT,
    ),
    Planted(
        "experts choose among all tokens", "plain decoder",
        "Each expert of the third block takes the half of the tokens with the highest scores: "
        "whether a token is among them depends on later ones.",
        _routed, "future", (), causal, (), "karpathy/nanochat#845",
    ),
    Planted(
        "a path for long sequences", "plain decoder",
        "From 64 tokens on the second layer works in blocks of 16, and the last token of each "
        "attends to the first of the next.",
        _blockwise, "future", (), causal, tokens=64,
    ),
    Planted(
        "a prefix that was not declared", "plain decoder",
        "Tokens before a separator (id 50) attend to one another; without one the model is causal.",
        _prefix, "future", (), causal,
    ),
]  # fmt: skip
