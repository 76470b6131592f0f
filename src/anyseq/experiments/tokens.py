"""Tasks and models that read tokens and predict a class at each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, linear

from anyseq.base import generator
from anyseq.design import Design
from anyseq.experiments.experiment import Batch, Ratio, Task
from anyseq.nn import Transformer
from anyseq.positions import URPE, Absolute, NoPosition, Position, RelativeBias

IGNORED = -100
"""A target that is ignored."""

POSITIONS: Mapping[str, Position] = {
    "none": NoPosition(),
    "rpe": RelativeBias(),
    "urpe": URPE(RelativeBias()),
    "absolute": Absolute(),
}
"""The settings of paper C's experiments."""

LEARN_BIASES = ("rpe", "urpe")
"""Those with a table of relative biases."""

SOLVED = 0.99
"""The accuracy from which on a task counts as solved."""

_HELD_OUT_BATCHES, _HELD_OUT_ROWS = 4, 64


class TokenTask(Task):
    """Batches have "input", ids (rows, tokens), and "target", classes (rows, tokens) or IGNORED."""

    def logits(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """The model's logits, (rows, tokens, classes)."""
        said: torch.Tensor = model(batch["input"])
        return said

    def loss(self, model: nn.Module, batch: Batch) -> Ratio:
        """The cross entropy over the tokens that count."""
        return self._cross_entropy(self.logits(model, batch), batch["target"])

    def scores(self, model: nn.Module, batch: Batch) -> Mapping[str, Ratio]:
        """loss, and accuracy: the share of the tokens that count whose likeliest class is right."""
        logits, target = self.logits(model, batch), batch["target"]
        right = (logits.argmax(-1) == target).sum()
        loss = self._cross_entropy(logits, target)
        return {"accuracy": Ratio(right.to(loss.total), loss.items), "loss": loss}

    def _cross_entropy(self, logits: torch.Tensor, target: torch.Tensor) -> Ratio:
        total = cross_entropy(
            logits.flatten(0, 1), target.flatten(), ignore_index=IGNORED, reduction="sum"
        )
        return Ratio(total, (target != IGNORED).sum().to(total))


class DrawnTask(TokenTask):
    """Batches are random numbers, and so are those that are held out."""

    def held_out(self) -> Sequence[Batch]:
        rng = generator(2**31)
        return [self.batch(_HELD_OUT_ROWS, rng) for _ in range(_HELD_OUT_BATCHES)]


class TokenModel(nn.Module):
    """Ids (batch, tokens) -> logits (batch, tokens, classes): an embedding, a Transformer of a
    design, a layer norm, and a linear map; that is the embedding again unless `classes` is given.

    more: what `Transformer` takes.
    """

    def __init__(
        self,
        design: Design,
        dim: int,
        depth: int,
        heads: int,
        *,
        vocab: int,
        classes: int | None = None,
        dtype: torch.dtype | None = None,
        **more: Any,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, dim, dtype=dtype)
        nn.init.normal_(self.embedding.weight, std=dim**-0.5)  # logits of size 1 at the start
        self.body = Transformer(design, dim, depth, heads, dtype=dtype, **more)
        self.norm = nn.LayerNorm(dim, dtype=dtype)
        self.head = None if classes is None else nn.Linear(dim, classes, dtype=dtype)

    def forward(self, ids: torch.Tensor, key_mask: torch.Tensor | None = None) -> torch.Tensor:
        """(batch, tokens) -> (batch, tokens, classes).

        key_mask: (batch, tokens) bool, False for padding, which no token attends to."""
        x = self.norm(self.body(self.embedding(ids), key_mask=key_mask))
        logits: torch.Tensor = (
            linear(x, self.embedding.weight) if self.head is None else self.head(x)
        )
        return logits
