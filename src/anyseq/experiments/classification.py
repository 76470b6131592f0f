"""Papers A and B, classification: an encoder learns to fill in hidden tokens, then to classify.

A sentence's logits are the mean over its tokens, and not those of a first token as in BERT: with
few layers a convolution or a sparse pattern does not bring all of a sentence to one token. The
encoder is pre-trained on the sentences themselves, without their labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import nn

from anyseq.base import generator
from anyseq.experiments.claims import about_real_data, beats, judged
from anyseq.experiments.data import Data, Sources
from anyseq.experiments.encoders import MIXERS, EncoderCell, encoder, masked, torch_encoder
from anyseq.experiments.experiment import Batch, Experiment, Judgement, Metric
from anyseq.experiments.reading import in_batches
from anyseq.experiments.sentences import CLASSES, Sentences, labelled, sentences
from anyseq.experiments.sparse import COMBINED, UNIONS
from anyseq.experiments.subwords import PAD
from anyseq.experiments.table import Table
from anyseq.experiments.tokens import TokenTask

# of pre-training, and what is different in fine-tuning
_SIZES = {
    "tiny": EncoderCell("", 12, 4, 3e-3, tokens=16, dim=16, heads=2, depth=2, vocab=300),
    "small": EncoderCell("", 400, 32, 3e-3, warm_up=40, tokens=32, depth=3),
    "medium": EncoderCell("", 1000, 32, 2e-3, warm_up=100, tokens=48, dim=96, vocab=2048),
    "paper": EncoderCell(
        "", 1_000_000, 256, 1e-4, warm_up=10_000, weight_decay=0.01, tokens=128, dim=768,
        depth=12, heads=12, vocab=30_522, dropout=0.1,
    ),
}  # fmt: skip
_TUNING: Mapping[str, Mapping[str, Any]] = {
    "tiny": {"rate": 1e-3},
    "small": {"steps": 300, "rate": 1e-3, "warm_up": 30, "points": 10},
    "medium": {"steps": 600, "rate": 5e-4, "warm_up": 40},
    "paper": {"steps": 12_000, "batch": 32, "rate": 3e-5, "warm_up": 1_200},
}
_LEVELS = {"tiny": (0.45,), "small": (0.5,), "medium": (0.5, 0.6), "paper": (0.5, 0.65, 0.75)}
_ALL = ("tiny", "paper")  # the scales with every combination


class _Padded(TokenTask):
    """Tokens do not attend to padding."""

    def logits(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        said: torch.Tensor = model(batch["input"], key_mask=batch["input"] != PAD)
        return said


@dataclass(frozen=True)
class FillInSentences(_Padded):
    """Predict the hidden tokens."""

    train: Sentences
    test: Sentences
    vocab: int
    real_data: bool

    def batch(self, size: int, rng: torch.Generator) -> Batch:
        rows = torch.randint(len(self.train.ids), (size,), generator=rng)
        return masked(self.train.ids[rows], self.vocab, rng)

    def held_out(self) -> Sequence[Batch]:
        return in_batches(masked(self.test.ids, self.vocab, generator(2**31)))

    def finish(self, means: Mapping[str, float]) -> Mapping[str, float]:
        """Not under the name of the metric that the table is about."""
        found = {f"pretraining_{name}": value for name, value in means.items()}
        return {**found, "real_data": float(self.real_data)}


@dataclass(frozen=True)
class Classify(_Padded):
    """Predict the class of each sentence: "target" is (rows, 1)."""

    train: Sentences
    test: Sentences
    real_data: bool

    def batch(self, size: int, rng: torch.Generator) -> Batch:
        rows = torch.randint(len(self.train.ids), (size,), generator=rng)
        return {"input": self.train.ids[rows], "target": self.train.labels[rows, None]}

    def held_out(self) -> Sequence[Batch]:
        return in_batches({"input": self.test.ids, "target": self.test.labels[:, None]})

    def logits(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """(rows, 1, classes): the mean over the tokens of a sentence."""
        each = super().logits(model, batch)
        real = (batch["input"] != PAD)[..., None].to(each)
        return (each * real).sum(1, keepdim=True) / real.sum(1, keepdim=True)

    def finish(self, means: Mapping[str, float]) -> Mapping[str, float]:
        return {**means, "real_data": float(self.real_data)}


class Classification(Experiment[EncoderCell]):
    """For each way to mix tokens: pre-training, then fine-tuning from its weights."""

    name, paper, metric = "classification", "A and B", Metric("accuracy", higher_is_better=True)
    claim = (
        "Fine-tuned encoders rank as in masked language modelling: attention, then separable "
        "convolution and bilinear projection, then averaging. Sparse patterns stand beside them."
    )
    note = "The paper's numbers are of MNLI, recalled, not verified: compare the order."
    published: ClassVar[Mapping[str, float]] = {
        "attention": 0.78,
        "bproj": 0.72,
        "sepconv": 0.73,
        "average": 0.66,
    }

    def grid(self, scale: str) -> Sequence[EncoderCell]:
        size, tuning = _SIZES[scale], _TUNING[scale]
        kinds = [replace(size, setting=name, mixer=name) for name in (*MIXERS, "hybrid-1")]
        kinds += [
            replace(size, setting=f"{name}, sparsity {level}", pattern=name, sparsity=level)
            for level in _LEVELS[scale]
            for name in UNIONS + (COMBINED if scale in _ALL else ())
        ]
        cells = []
        for kind in kinds:
            first = replace(kind, setting=f"{kind.setting}, pre-training")
            cells += [first, replace(kind, start=first.setting, **tuning)]
        return cells

    def task(self, cell: EncoderCell, data: Data) -> TokenTask:
        train, test = sentences(data, cell.vocab, cell.tokens)
        real = data.folder is not None
        if cell.start is None:
            return FillInSentences(train, test, cell.vocab, real)
        return Classify(train, test, real)

    def model(self, cell: EncoderCell) -> nn.Module:
        return encoder(cell, _classes(cell))

    def sources(self, cell: EncoderCell, data: Data) -> Sources:
        return labelled(data).sources

    def peer(self, cell: EncoderCell) -> nn.Module | None:
        return torch_encoder(cell, _classes(cell))

    def judge(self, table: Table) -> Judgement:
        order = [
            ("attention", "bproj"),
            ("attention", "sepconv"),
            ("bproj", "average"),
            ("sepconv", "average"),
        ]
        claims = [beats(table, self.metric, better, worse) for better, worse in order]
        return about_real_data(table, judged(table, claims))


def _classes(cell: EncoderCell) -> int | None:
    return None if cell.start is None else CLASSES
