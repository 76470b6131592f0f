"""Paper C's synthetic tasks: can a network determine the position of a token?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import nn

from anyseq.design import Design
from anyseq.experiments.data import Data
from anyseq.experiments.experiment import Batch, Cell, Experiment, Judgement, Metric
from anyseq.experiments.peer import TorchPeer
from anyseq.experiments.table import Table
from anyseq.experiments.tokens import LEARN_BIASES, POSITIONS, SOLVED, DrawnTask, TokenModel

ACCURACY = Metric("accuracy", higher_is_better=True)

VOCABULARIES = (10, 1000, 10_000)
"""Kinds of tokens in the paper's tasks."""


def named(position: str, vocab: int) -> str:
    """A setting; the first vocabulary needs no name."""
    return position if vocab == VOCABULARIES[0] else f"{position}, vocabulary {vocab}"


def by_vocabulary(values: Mapping[str, tuple[float, float, float]]) -> Mapping[str, float]:
    """Settings, from a number for each vocabulary by position."""
    return {
        named(position, vocab): value
        for position, each in values.items()
        for vocab, value in zip(VOCABULARIES, each, strict=True)
    }


@dataclass(frozen=True)
class PositionCell(Cell):
    """position: a key of `POSITIONS`; shared_bias: all layers learn one table of biases, as in the
    paper's models, not one each; dtype: of the weights."""

    position: str = "none"
    vocab: int = 10
    tokens: int = 128
    dim: int = 768
    depth: int = 3
    heads: int = 12
    shared_bias: bool = True
    dtype: str = "float32"


@dataclass(frozen=True)
class Synthetic(DrawnTask):
    """Random ids (rows, tokens), and a target that follows from them."""

    vocab: int
    tokens: int

    def batch(self, size: int, rng: torch.Generator) -> Batch:
        ids = self.ids(size, rng)
        return {"input": ids, "target": self.target(ids)}

    def ids(self, size: int, rng: torch.Generator) -> torch.Tensor:
        """Independent and uniform."""
        return torch.randint(self.vocab, (size, self.tokens), generator=rng)

    def target(self, ids: torch.Tensor) -> torch.Tensor:
        """y_i = i."""
        return torch.arange(self.tokens).expand_as(ids)


class PositionExperiment(Experiment[PositionCell]):
    """The four positions with each vocabulary; outputs are positions unless `ends` differs.

    sizes: by scale. larger: by scale and vocabulary, what is different there.
    """

    paper, metric = "C", ACCURACY
    sizes: ClassVar[Mapping[str, PositionCell]]
    larger: ClassVar[Mapping[tuple[str, int], Mapping[str, Any]]] = {}
    vocabularies: ClassVar[Sequence[int]] = VOCABULARIES

    def grid(self, scale: str) -> Sequence[PositionCell]:
        return [
            replace(
                self.sizes[scale],
                setting=named(position, vocab),
                position=position,
                vocab=vocab,
                **self.larger.get((scale, vocab), {}),
            )
            for vocab in self.vocabularies
            for position in POSITIONS
        ]

    def task(self, cell: PositionCell, data: Data) -> Synthetic:
        return Synthetic(cell.vocab, cell.tokens)

    def model(self, cell: PositionCell) -> nn.Module:
        return position_model(cell, *self.ends(cell))

    def peer(self, cell: PositionCell) -> nn.Module:
        return torch_peer(cell, *self.ends(cell))

    def ends(self, cell: PositionCell) -> tuple[int, int | None]:
        """How many ids, and how many classes; None: the ids again."""
        return cell.vocab, cell.tokens


def position_model(cell: PositionCell, vocab: int, classes: int | None = None) -> nn.Module:
    """The encoder of a cell."""
    return TokenModel(_design(cell), **_shape(cell), vocab=vocab, classes=classes)


def torch_peer(cell: PositionCell, vocab: int, classes: int | None = None) -> nn.Module:
    """The same model from torch's own parts."""
    return TorchPeer(_design(cell), **_shape(cell), vocab=vocab, classes=classes)


def _design(cell: PositionCell) -> Design:
    return Design(cell.tokens, position=POSITIONS[cell.position])


def _shape(cell: PositionCell) -> dict[str, Any]:
    return {
        "dim": cell.dim,
        "depth": cell.depth,
        "heads": cell.heads,
        "dtype": getattr(torch, cell.dtype),
        "shared_bias": cell.shared_bias and cell.position in LEARN_BIASES,
    }


def judged(table: Table, *, solved: Sequence[str], failed: Mapping[str, float]) -> Judgement:
    """ "same" if every seed of the `solved` settings reaches 0.99, and the mean of each of the
    `failed` stays below its limit; a single seed could be chance."""
    found = {name: table.summary(name, ACCURACY.name) for name in (*solved, *failed)}
    if missing := [name for name, one in found.items() if one is None]:
        return Judgement("undecided", f"not run yet: {', '.join(missing)}")
    seen = {name: one for name, one in found.items() if one is not None}
    short = [f"{name} has {seen[name].lowest:.3f}" for name in solved if seen[name].lowest < SOLVED]
    high = [
        f"{name} has {seen[name].mean:.3f}, more than {limit:.3f}"
        for name, limit in failed.items()
        if seen[name].mean > limit
    ]
    if short or high:
        return Judgement("different", "; ".join(short + high))
    low = "; ".join(f"{name} {seen[name].mean:.3f}" for name in failed)
    reason = f"{SOLVED} or more with every seed: {'; '.join(solved)}. Below: {low}"
    if single := [name for name, one in seen.items() if one.seeds == 1]:
        reason = f"as claimed so far, but with a single seed of {'; '.join(single)}: {reason}"
        return Judgement("undecided", reason)
    return Judgement("same", reason)
