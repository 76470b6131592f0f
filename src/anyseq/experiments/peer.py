"""The same model from torch's own parts, and how much faster or slower anyseq's trains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import nn
from torch.nn.functional import linear

from anyseq.base import generator, medians
from anyseq.design import Design
from anyseq.experiments.experiment import Task
from anyseq.experiments.torch_layer import TorchLayer
from anyseq.experiments.transformer_xl import DistanceScores
from anyseq.patterns import Pattern
from anyseq.positions import URPE, RelativeBias

_IN_A_ROW = 5  # steps of one model, as in training: after another model's it finds caches cold


class TorchPeer(nn.Module):
    """Ids (batch, tokens) -> logits: an embedding, learned positions, a TransformerEncoderLayer for
    each layer of a design, with its mask, a layer norm, and the embedding again or `classes`.

    A relative bias is learned here, too, one for each layer or, with `shared_bias`, for all: torch
    takes it as a mask of numbers. A gain is learned, and `distances`, Transformer-XL's scores: see
    `TorchLayer`. A pattern is a dense mask, one for each head if they differ. dropout acts where
    `Transformer` has it, and in the hidden layer of the feed-forward half.
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
        causal: bool = False,
        shared_bias: bool = False,
        dropout: float = 0.0,
        distances: bool = False,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        n = design.tokens
        self.offset: torch.Tensor
        self.embedding = nn.Embedding(vocab, dim, dtype=dtype)
        self.position = nn.Parameter(torch.zeros(n, dim, dtype=dtype))
        self.layers = nn.ModuleList(
            TorchLayer(
                dim,
                heads,
                4 * dim,
                dropout=dropout,
                dtype=dtype,
                distances=DistanceScores(dim, heads) if distances else None,
            )
            for _ in range(depth)
        )
        for layer in range(depth):
            mask = seen_by_heads(design.cycle[layer % len(design.cycle)], n, heads)
            mask = mask.tril() if causal else mask
            self.register_buffer(f"hidden_{layer}", None if mask.all() else ~mask)
        place = torch.arange(n)
        self.register_buffer("offset", place[:, None] - place + n - 1)
        base = design.position.base if isinstance(design.position, URPE) else design.position
        tables = (1 if shared_bias else depth) if isinstance(base, RelativeBias) else 0
        self.bias = nn.ParameterList(
            torch.zeros(heads, 2 * n - 1, dtype=dtype) for _ in range(tables)
        )
        gained = isinstance(design.position, URPE)
        ones = torch.ones(heads, 2 * n - 1, dtype=dtype)
        self.gain = nn.Parameter(ones) if gained else None  # all layers share it
        self.norm = nn.LayerNorm(dim, dtype=dtype)
        self.head = None if classes is None else nn.Linear(dim, classes, dtype=dtype)

    def forward(self, ids: torch.Tensor, key_mask: torch.Tensor | None = None) -> torch.Tensor:
        """(batch, tokens) -> (batch, tokens, classes); key_mask as in `TokenModel`."""
        x, padding = self.embedding(ids) + self.position, None if key_mask is None else ~key_mask
        gain = None if self.gain is None else self._dense(self.gain)
        biases = [self._dense(table) for table in self.bias]
        for index, layer in enumerate(self.layers):
            mask = getattr(self, f"hidden_{index}")
            if biases:
                bias = biases[index % len(biases)]
                mask = bias if mask is None else bias.masked_fill(mask, -torch.inf)
            x = layer(x, mask, gain, padding)
        x = self.norm(x)
        logits: torch.Tensor = (
            linear(x, self.embedding.weight) if self.head is None else self.head(x)
        )
        return logits

    def _dense(self, numbers: torch.Tensor) -> torch.Tensor:
        """(heads, n, n) from a number for each head and offset."""
        return numbers[:, self.offset]


def seen_by_heads(pattern: Pattern, n: int, heads: int) -> torch.Tensor:
    """(n, n) bool, or (heads, n, n) if heads differ: which tokens each token may attend to."""
    parts = pattern.heads()
    if len(parts) == 1:
        return pattern.mask(n)
    return torch.stack([parts[head % len(parts)].mask(n) for head in range(heads)])


def training_step(model: nn.Module, task: Task, size: int) -> Callable[[], None]:
    """One step of training on one batch, as often as it is called."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    device = next(model.parameters()).device
    batch = {name: value.to(device) for name, value in task.batch(size, generator(0)).items()}

    def step() -> None:
        found = task.loss(model, batch)
        (found.total / found.items).backward()
        optimiser.step()
        optimiser.zero_grad()
        if device.type != "cpu":
            torch.accelerator.synchronize()  # or only the asking would be timed

    return step


def step_seconds(
    models: Mapping[str, nn.Module], task: Task, size: int, rounds: int, seed: int = 0
) -> dict[str, float]:
    """Medians of alternating rounds, in orders by the seed: a step of training of each model, by
    its name; "batch", what it takes to make a batch of that size."""
    works: dict[str, Callable[[], object]] = {
        name: partial(_repeat, training_step(model, task, size)) for name, model in models.items()
    }
    works["batch"] = lambda: task.batch(size, generator(1))  # once, between steps, as in training
    taken = medians(works, rounds, seed)
    return {name: taken[name] / _IN_A_ROW for name in models} | {"batch": taken["batch"]}


def _repeat(step: Callable[[], object]) -> None:
    for _ in range(_IN_A_ROW):
        step()
