"""Paper B, translation: Tatoeba's English to German, over sparse patterns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import nn

from anyseq.design import Design
from anyseq.experiments.bleu import bleu, bleu_counts
from anyseq.experiments.claims import about_real_data, beats, judged
from anyseq.experiments.data import Data, Sources
from anyseq.experiments.experiment import Batch, Cell, Experiment, Judgement, Metric, Ratio
from anyseq.experiments.reading import in_batches
from anyseq.experiments.sentence_pairs import Encoded, Encodings, encodings, sentence_pairs
from anyseq.experiments.sparse import COMBINED, DENSE, UNIONS, patterns
from anyseq.experiments.table import Table
from anyseq.experiments.tokens import IGNORED, TokenTask
from anyseq.experiments.translator import END, START, TorchTranslator, Translator
from anyseq.positions import NoPosition


@dataclass(frozen=True)
class TranslationCell(Cell):
    """pattern, sparsity: as in `sparse.patterns`; together: sentences in a sequence; test_rows:
    sequences that are measured, at most."""

    pattern: str = DENSE
    sparsity: float = 0.55
    together: int = 2
    tokens: int = 28
    dim: int = 64
    depth: int = 2
    heads: int = 4
    vocab: int = 1024
    dropout: float = 0.0
    test_rows: int = 256


_SIZES = {
    "tiny": TranslationCell(
        "", 12, 4, 3e-3, together=1, tokens=24, dim=16, heads=2, vocab=300, test_rows=8
    ),
    "small": TranslationCell("", 600, 32, 4e-3, warm_up=100, points=10),
    "medium": TranslationCell(
        "", 1400, 32, 4e-3, warm_up=200, together=3, tokens=36, dim=96, vocab=2048, test_rows=384,
        sparsity=0.6,
    ),
    "paper": TranslationCell(
        "", 100_000, 256, 5e-4, warm_up=4_000, together=20, tokens=256, dim=512, depth=6, heads=8,
        vocab=8192, sparsity=0.8, dropout=0.1, test_rows=10_000,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Translate(TokenTask):
    """Batches have "source", ids to read, "input", START and what is written, "target", what is
    written and END; held-out ones also "row", their places among the test's."""

    encodings: Encodings
    test_rows: int
    real_data: bool

    def batch(self, size: int, rng: torch.Generator) -> Batch:
        train = self.encodings.train
        rows = torch.randint(len(train.source), (size,), generator=rng)
        return _taught(train, rows)

    def held_out(self) -> Sequence[Batch]:
        test = self.encodings.test
        rows = torch.arange(min(self.test_rows, len(test.source)))
        return in_batches(_taught(test, rows) | {"row": rows})

    def logits(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        said: torch.Tensor = model(batch["source"], batch["input"])
        return said

    def scores(self, model: nn.Module, batch: Batch) -> Mapping[str, Ratio]:
        """loss and accuracy given the correct preceding tokens, and the parts of BLEU without
        them."""
        found = [self._text(ids) for ids in model(batch["source"]).tolist()]
        wanted = [self.encodings.test.texts[row] for row in batch["row"].tolist()]
        return {**super().scores(model, batch), **bleu_counts(found, wanted)}

    def finish(self, means: Mapping[str, float]) -> Mapping[str, float]:
        told = {name: means[name] for name in ("accuracy", "loss")}
        perplexity, real = math.exp(means["loss"]), float(self.real_data)
        return {"bleu": bleu(means), **told, "perplexity": perplexity, "real_data": real}

    def _text(self, ids: list[int]) -> str:
        end = ids.index(END) if END in ids else len(ids)
        return self.encodings.subwords.text([token for token in ids[:end] if token != START])


def _taught(part: Encoded, rows: torch.Tensor) -> Batch:
    written = part.written[rows]
    before = torch.cat([torch.full_like(written[:, :1], START), written[:, :-1]], 1)
    over = before == END
    return {
        "source": part.source[rows],
        "input": before,
        "target": written.masked_fill(over, IGNORED),
    }


class Translation(Experiment[TranslationCell]):
    """Patterns in the encoder's and the decoder's self-attention, dense attention between them."""

    name, paper, metric = "translation", "B", Metric("bleu", higher_is_better=True)
    claim = "Of the sparse patterns STRIDED and FIXED are best, each as a UNION."
    note = (
        "The paper has curves over sparsity for WMT18 English to Czech. Tatoeba's sentences have a "
        "few words each, so several are read, and written, as one sequence."
    )
    published: ClassVar[Mapping[str, float]] = {}

    def grid(self, scale: str) -> Sequence[TranslationCell]:
        return [
            replace(_SIZES[scale], setting=pattern, pattern=pattern)
            for pattern in (DENSE, *UNIONS, *COMBINED)
        ]

    def task(self, cell: TranslationCell, data: Data) -> Translate:
        found = encodings(data, cell.vocab, cell.tokens, cell.together)
        return Translate(found, cell.test_rows, data.folder is not None)

    def model(self, cell: TranslationCell) -> nn.Module:
        return Translator(**_shape(cell))

    def sources(self, cell: TranslationCell, data: Data) -> Sources:
        return sentence_pairs(data).sources

    def peer(self, cell: TranslationCell) -> nn.Module:
        return TorchTranslator(**_shape(cell))

    def judge(self, table: Table) -> Judgement:
        claims = [
            beats(table, self.metric, f"{name}-union", worse)
            for name in ("strided", "fixed")
            for worse in (f"{name}-multihead", f"{name}-sequential", "star", "random")
        ]
        return about_real_data(table, judged(table, claims))


def _shape(cell: TranslationCell) -> dict[str, Any]:
    design = Design(
        cell.tokens,
        patterns=patterns(cell.pattern, cell.tokens, cell.sparsity),
        position=NoPosition(),  # positions are part of the embedding
    )
    return {
        "design": design, "dim": cell.dim, "depth": cell.depth, "heads": cell.heads,
        "vocab": cell.vocab, "dropout": cell.dropout,
    }  # fmt: skip
