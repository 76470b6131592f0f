"""Papers B and C, language models: sparse patterns, and relative positions with and without URPE.

Every sequence is read by itself: there is no memory of earlier text, unlike in Transformer-XL.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import nn

from anyseq.design import Design
from anyseq.experiments.claims import about_real_data, beats, judged
from anyseq.experiments.data import Data, Sources
from anyseq.experiments.experiment import Batch, Cell, Experiment, Judgement, Metric
from anyseq.experiments.peer import TorchPeer
from anyseq.experiments.reading import Reading, in_batches, reading
from anyseq.experiments.sparse import COMBINED, DENSE, UNIONS, patterns, sparsity_of
from anyseq.experiments.table import Table
from anyseq.experiments.text import corpus
from anyseq.experiments.tokens import TokenModel, TokenTask
from anyseq.experiments.transformer_xl import xl_attention
from anyseq.patterns import Pattern
from anyseq.positions import URPE, Absolute, NoPosition, Position


@dataclass(frozen=True)
class LanguageCell(Cell):
    """position: a key of `_POSITIONS`; pattern, sparsity: as in `sparse.patterns`; characters: of
    the training text, at most; test_rows: sequences that are measured, at most."""

    position: str = "absolute"
    pattern: str = DENSE
    sparsity: float = 0.0
    tokens: int = 64
    dim: int = 64
    depth: int = 2
    heads: int = 4
    vocab: int = 1024
    dropout: float = 0.0
    characters: int = 1_000_000
    test_rows: int = 256


_SIZES = {
    "tiny": LanguageCell(
        "", 12, 4, 3e-3, tokens=16, dim=16, heads=2, vocab=300, characters=50_000, test_rows=16
    ),
    "small": LanguageCell("", 500, 16, 3e-3, warm_up=50),
    # The model of small, twice the steps and twice what it is measured on: more seeds can be run.
    "medium": LanguageCell(
        "", 1000, 16, 3e-3, warm_up=50, points=10, characters=4_000_000, test_rows=512
    ),
    "paper": LanguageCell(  # paper B's
        "", 500_000, 256, 5e-4, warm_up=10_000, tokens=256, dim=512, depth=12, heads=8,
        vocab=32_768, dropout=0.1, characters=12_000_000, test_rows=10_000,
    ),
}  # fmt: skip
_PAPER_C: Mapping[str, Any] = {
    "tokens": 150,
    "dim": 410,
    "depth": 16,
    "heads": 10,
    "batch": 60,
    "steps": 200_000,
}
_LEVELS = {"tiny": (0.45,), "small": (0.5, 0.65), "medium": (0.5, 0.65), "paper": (0.5, 0.65, 0.8)}
# the levels at which STRIDED and FIXED are combined in every way, all of the same sparsity
_COMBINED = {"tiny": (0.45,), "small": (), "medium": (0.65,), "paper": (0.5, 0.65, 0.8)}
# relative positions are the layers' own, see `xl_attention`
_POSITIONS: Mapping[str, Position] = {
    "none": NoPosition(),
    "rpe": NoPosition(),
    "urpe": URPE(NoPosition()),
    "absolute": Absolute(),
}


def _setting(pattern: str, level: float) -> str:
    return f"{pattern}, sparsity {level}"


@dataclass(frozen=True)
class NextToken(TokenTask):
    """Predict the next token, at every token."""

    text: Reading
    tokens: int
    rows: int
    sparsity: float
    real_data: bool

    def batch(self, size: int, rng: torch.Generator) -> Batch:
        return self._shifted(self.text.draw(size, self.tokens + 1, rng))

    def held_out(self) -> Sequence[Batch]:
        return in_batches(
            self._shifted(self.text.test_rows(self.rows, self.tokens + 1, self.tokens))
        )

    def finish(self, means: Mapping[str, float]) -> Mapping[str, float]:
        """perplexity, of a token; bits_per_character, which depends on no vocabulary; sparsity, as
        it has come out."""
        bits = means["loss"] / math.log(2) / self.text.characters_per_token
        return {
            "perplexity": math.exp(means["loss"]),
            "bits_per_character": bits,
            **means,
            "sparsity": self.sparsity,
            "real_data": float(self.real_data),
        }

    def _shifted(self, ids: torch.Tensor) -> Batch:
        return {"input": ids[:, :-1], "target": ids[:, 1:]}


class LanguageModel(Experiment[LanguageCell]):
    """RPE and URPE with dense attention; patterns with absolute positions."""

    name, paper, metric = "language-model", "B and C", Metric("perplexity", higher_is_better=False)
    claim = (
        "URPE lowers the perplexity of Transformer-XL's relative attention (24.0 to 23.2); of the "
        "sparse patterns STRIDED and STAR are best at every sparsity."
    )
    note = (
        "The papers' perplexities are of words of WikiText-103, with a memory of the text before: "
        "compare differences, not levels."
    )
    published: ClassVar[Mapping[str, float]] = {"rpe": 24.0, "urpe": 23.2}

    def grid(self, scale: str) -> Sequence[LanguageCell]:
        size = _SIZES[scale]
        wide = replace(size, **_PAPER_C) if scale == "paper" else size
        dense = [
            replace(
                wide if position in ("rpe", "urpe") else size, setting=position, position=position
            )
            for position in _POSITIONS
        ]
        return dense + [
            replace(size, setting=_setting(pattern, level), pattern=pattern, sparsity=level)
            for level in _LEVELS[scale]
            for pattern in UNIONS + (COMBINED if level in _COMBINED[scale] else ())
        ]

    def task(self, cell: LanguageCell, data: Data) -> NextToken:
        text = reading(data, cell.characters, cell.vocab)
        sparsity = sparsity_of(_cycle(cell), cell.tokens)
        return NextToken(text, cell.tokens, cell.test_rows, sparsity, data.folder is not None)

    def model(self, cell: LanguageCell) -> nn.Module:
        model = TokenModel(**_shape(cell))
        if _relative(cell):  # attention that no Design describes
            for block in model.body.blocks:
                block.mixer = xl_attention(cell.dim, cell.heads, cell.dropout)
        return model

    def sources(self, cell: LanguageCell, data: Data) -> Sources:
        return corpus(data, cell.characters).sources

    def peer(self, cell: LanguageCell) -> nn.Module:
        return TorchPeer(**_shape(cell), distances=_relative(cell))

    def judge(self, table: Table) -> Judgement:
        claims = [beats(table, self.metric, "urpe", "rpe")]
        claims += [
            beats(table, self.metric, _setting(better, level), _setting(worse, level))
            for level in _LEVELS[table.scale]
            for better in ("strided-union", "star")
            for worse in ("fixed-union", "random")
        ]
        return about_real_data(table, judged(table, claims))


def _relative(cell: LanguageCell) -> bool:
    """Whether its layers have Transformer-XL's attention."""
    return cell.position in ("rpe", "urpe")


def _cycle(cell: LanguageCell) -> tuple[Pattern, ...]:
    return patterns(cell.pattern, cell.tokens, cell.sparsity, matched=True)


def _shape(cell: LanguageCell) -> dict[str, Any]:
    design = Design(
        cell.tokens,
        patterns=_cycle(cell),
        position=_POSITIONS[cell.position],
    )
    return {
        "design": design, "dim": cell.dim, "depth": cell.depth, "heads": cell.heads,
        "vocab": cell.vocab, "causal": True, "dropout": cell.dropout,
    }  # fmt: skip
