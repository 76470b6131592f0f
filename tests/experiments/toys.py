"""An experiment that takes a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from anyseq.base import generator
from anyseq.design import Design
from anyseq.experiments.data import Data
from anyseq.experiments.experiment import Batch, Cell, Experiment, Judgement, Metric, Ratio, Task
from anyseq.experiments.table import Table
from anyseq.experiments.tokens import IGNORED, TokenModel, TokenTask

TOKENS, VOCAB = 6, 8


@dataclass(frozen=True)
class ToyCell(Cell):
    """dropout: so that a run that goes on needs the right noise; scale: of the loss."""

    dropout: float = 0.0
    scale: float = 1.0


class ToyTask(TokenTask):
    """Name the token before. Rows differ in the number of targets, one has none: the mean over
    tokens is not the mean over rows, nor the mean over processes."""

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale

    def batch(self, size: int, rng: torch.Generator) -> Batch:
        ids = torch.randint(VOCAB, (size, TOKENS), generator=rng)
        hidden = torch.rand(size, TOKENS, generator=rng) < torch.linspace(0, 1, size)[:, None]
        return {"input": ids, "target": ids.roll(1, 1).masked_fill(hidden, IGNORED)}

    def loss(self, model: nn.Module, batch: Batch) -> Ratio:
        found = super().loss(model, batch)
        return Ratio(found.total * self.scale, found.items)

    def held_out(self) -> Sequence[Batch]:
        return [self.batch(7, generator(0)), self.batch(5, generator(1))]


class Toy(Experiment[ToyCell]):
    """The second setting begins with the weights of the first."""

    name, paper, claim, metric = "toy", "-", "It learns.", Metric("accuracy", True)
    published: ClassVar[Mapping[str, float]] = {"first": 0.5}

    def __init__(self, *cells: ToyCell) -> None:
        self.cells = cells

    def grid(self, scale: str) -> Sequence[ToyCell]:
        return self.cells

    def task(self, cell: ToyCell, data: Data) -> Task:
        return ToyTask(cell.scale)

    def model(self, cell: ToyCell) -> nn.Module:
        return TokenModel(Design(TOKENS), 8, 1, 2, vocab=VOCAB, dropout=cell.dropout)

    def judge(self, table: Table) -> Judgement:
        return Judgement("same", "it ran")


def first(dropout: float = 0.1, steps: int = 12, rate: float = 1e-2) -> ToyCell:
    return ToyCell("first", steps, batch=8, rate=rate, warm_up=2, dropout=dropout)


def second(dropout: float = 0.1) -> ToyCell:
    return ToyCell(
        "second", 6, batch=8, rate=1e-2, weight_decay=0.1, start="first", dropout=dropout
    )
