"""Paper C's theorem itself: w w ... w in, 1 2 ... n out.

Rows of a softmax sum to 1, so equal tokens stay equal through any number of layers with relative
positions: such a network gives the same output everywhere and is right at one token of n. In
float64, since the rounding of float32 may make equal tokens different. The claim is about every
size, so the tiny scale is judged, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from anyseq.experiments.data import Data
from anyseq.experiments.experiment import Judgement
from anyseq.experiments.position_tasks import (
    VOCABULARIES,
    PositionCell,
    PositionExperiment,
    Synthetic,
    judged,
)
from anyseq.experiments.table import Table

_SIZES = {
    "tiny": PositionCell(
        "", 200, 16, 3e-3, points=20, tokens=8, dim=32, heads=4, depth=2, dtype="float64"
    ),
    "small": PositionCell(
        "", 600, 10, 3e-3, points=20, tokens=32, dim=64, heads=4, dtype="float64"
    ),
    "medium": PositionCell("", 3000, 10, 1e-3, tokens=128, dim=128, heads=4, dtype="float64"),
    "paper": PositionCell("", 40_000, 512, 7e-5, warm_up=6_000, dtype="float64"),
}
_ROUNDING = 1e-9


@dataclass(frozen=True)
class _Constant(Synthetic):
    def ids(self, size: int, rng: torch.Generator) -> torch.Tensor:
        word = torch.randint(self.vocab, (size, 1), generator=rng)
        return word.expand(size, self.tokens).contiguous()


class ConstantInput(PositionExperiment):
    """One of `vocab` words, repeated; y_i = i."""

    name, sizes, vocabularies = "constant-input", _SIZES, VOCABULARIES[:1]
    claim = "On n equal tokens RPE is right at one of n, whatever its size; URPE at all of them."
    published: ClassVar[Mapping[str, float]] = {}

    def task(self, cell: PositionCell, data: Data) -> Synthetic:
        return _Constant(cell.vocab, cell.tokens)

    def judge(self, table: Table) -> Judgement:
        chance = 1 / _SIZES[table.scale].tokens + _ROUNDING
        return judged(table, solved=("urpe", "absolute"), failed={"none": chance, "rpe": chance})
