"""Rows that influence each other, and runs that differ."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import anyseq as aq
from models.faults.planted.families import attentions, tiny, with_mask
from models.faults.planted.fault import Model, Planted, anywhere
from models.faults.planted.plain import WIDTH, Gpt, Mlp, seeded


class BatchNorm(nn.Module):
    """Statistics of the batch, in evaluation too."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean((0, 2), keepdim=True)) / x.std((0, 2), keepdim=True)


class Capacity(nn.Module):
    """Two experts, each with room for a part of the batch; what comes later is dropped."""

    def __init__(self, room: float) -> None:
        super().__init__()
        self.room, self.router = room, nn.Linear(WIDTH, 2)
        self.experts = nn.ModuleList(Mlp() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.flatten(0, 1)
        chosen = self.router(tokens).argmax(-1)
        out = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            mine = (chosen == number).nonzero()[: int(self.room * len(tokens)), 0]
            out[mine] = expert(tokens[mine])
        return out.view_as(x)


class Remembering(nn.Module):
    """Adds what the last call ended with."""

    last: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before, self.last = self.last, x[:1, -1:].detach()
        return x if before is None else x + 0.1 * before.to(x)


class Dropping(nn.Module):
    """Dropout that does not ask whether the model trains."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(x, 0.1)


def _batch_norm(faulty: bool) -> Model:
    model = seeded(Gpt)
    model.blocks[1].norm2 = BatchNorm() if faulty else model.blocks[1].norm2
    return model, aq.Causal()


def _capacity(faulty: bool) -> Model:
    model = seeded(Gpt)
    model.blocks[1].mlp = seeded(lambda: Capacity(0.4 if faulty else 1.0))
    return model, aq.Causal()


def _first_row(faulty: bool) -> Model:
    model = tiny("mistral")
    for attention in attentions(model, 1, 2, 3, 4) if faulty else ():
        with_mask(attention, lambda mask, x: None if mask is None else mask[:1].expand_as(mask))
    return model, None


def _last_row(faulty: bool) -> Model:
    model = tiny("llama")
    for attention in attentions(model, 1, 2, 3, 4) if faulty else ():
        with_mask(attention, lambda mask, x: None if mask is None else mask[-1:].expand_as(mask))
    return model, None


def _dropout(faulty: bool) -> Model:
    model: Any = tiny("bert")
    if faulty:
        model.bert.encoder.layer[1].output.dropout = Dropping()
    return model, None


def _state(faulty: bool) -> Model:
    model = seeded(Gpt)
    model.mix = Remembering() if faulty else model.mix
    return model, aq.Causal()


def _attention_dropout(faulty: bool) -> Model:
    """Attention asks self.training, and nobody told it."""
    model = tiny("gpt2", attn_pdrop=0.2)
    (attention,) = attentions(model, 2)
    if faulty:
        attention.train()
        attention.train = lambda mode=True: attention  # type: ignore[method-assign]
    return model, None


FAULTS = [
    Planted(
        "statistics of the batch in evaluation", "plain decoder",
        "In the second block a norm takes mean and deviation over the rows of the batch.",
        _batch_norm, "rows", (), anywhere,
    ),
    Planted(
        "experts with room for a part of the batch", "plain decoder",
        "The experts of the second block have room for 40% of the tokens of the batch each; what "
        "comes later is dropped.",
        _capacity, "rows", (), anywhere,
    ),
    Planted(
        "all rows use the mask of the first", "mistral",
        "The mask is that of the first row of the batch, expanded to all rows.",
        _first_row, "rows", (), anywhere, (),
    ),
    Planted(
        "all rows use the mask of the last", "llama",
        "The mask is that of the last row of the batch, expanded to all rows.",
        _last_row, "rows", (), anywhere, (),
    ),
    Planted(
        "dropout in evaluation", "bert",
        "dropout() is called in the second layer without training=self.training.",
        _dropout, "random", (), anywhere,
    ),
    Planted(
        "attention that never leaves training", "gpt2",
        "A wrapper around the second layer's attention does not pass eval() on.",
        _attention_dropout, "random", (), anywhere,
    ),
    Planted(
        "state that stays between calls", "plain decoder",
        "What the last call ended with is added to all tokens of the next one.",
        _state, "random", (), anywhere,
    ),
]  # fmt: skip
