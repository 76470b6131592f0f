"""Paper C, Even Token Prediction: the first half of the output is every second token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

from anyseq.experiments.data import Data
from anyseq.experiments.experiment import TINY, Judgement
from anyseq.experiments.position_tasks import (
    VOCABULARIES,
    PositionCell,
    PositionExperiment,
    Synthetic,
    by_vocabulary,
    judged,
    named,
)
from anyseq.experiments.table import Table

_SIZES = {
    "tiny": PositionCell("", 40, 8, 3e-3, tokens=8, dim=32, heads=4, depth=2),
    # The paper's three layers, half of its tokens, and about as many steps as URPE needs.
    "small": PositionCell("", 3000, 32, 4e-3, warm_up=200, points=20, tokens=64, dim=64, heads=8),
    "medium": PositionCell("", 6000, 32, 1e-3, warm_up=100, tokens=64, dim=128, heads=8),
    "paper": PositionCell("", 40_000, 512, 7e-5, warm_up=6_000),
}
# With as many kinds of tokens as these all of them learn more slowly, and a step takes longer: more
# steps on shorter sequences, and a table for each layer, which helps both RPE and URPE.
_SLOWER: Mapping[str, Any] = {"steps": 7000, "rate": 6e-3, "shared_bias": False}
_LARGER: Mapping[tuple[str, int], Mapping[str, Any]] = {
    ("small", 1000): {**_SLOWER, "tokens": 48, "heads": 4},
    ("small", 10_000): {**_SLOWER, "tokens": 32, "batch": 16},
}
_WELL_BELOW = 0.8
_OWN_TABLES = "rpe, a table for each layer"


@dataclass(frozen=True)
class _Even(Synthetic):
    def target(self, ids: torch.Tensor) -> torch.Tensor:
        """x_1, x_3, x_5, ... (counted from 0), then the filler, whose id is the next after all."""
        even = ids[:, 1::2]
        return torch.cat([even, torch.full_like(ids[:, even.shape[1] :], self.vocab)], dim=1)


class EvenTokens(PositionExperiment):
    """y_i = x_2i (counted from 1) in the first half, and a filler in the second."""

    name, sizes, larger = "even-tokens", _SIZES, _LARGER
    claim = "URPE predicts every second token; with RPE little more than the filler is right."
    note = (
        "A vocabulary of 10 tokens unless another is named. The paper's models have one table of "
        "biases for all layers; at small those with larger vocabularies have one for each layer. "
        "The paper's numbers are read off bars, ± 0.005."
    )
    published: ClassVar[Mapping[str, float]] = by_vocabulary(
        {"none": (0.50, 0.50, 0.50), "rpe": (0.58, 0.54, 0.52), "urpe": (1.00, 1.00, 1.00)}
    )

    def grid(self, scale: str) -> Sequence[PositionCell]:
        cells = super().grid(scale)
        rpe = next(cell for cell in cells if cell.position == "rpe")
        return [*cells, replace(rpe, setting=_OWN_TABLES, shared_bias=False)]

    def task(self, cell: PositionCell, data: Data) -> Synthetic:
        return _Even(cell.vocab, cell.tokens)

    def ends(self, cell: PositionCell) -> tuple[int, int | None]:
        """With the filler."""
        return cell.vocab + 1, None

    def judge(self, table: Table) -> Judgement:
        if table.scale == "tiny":
            return TINY
        return judged(
            table,
            solved=[named("urpe", vocab) for vocab in VOCABULARIES],
            failed={named("rpe", vocab): _WELL_BELOW for vocab in VOCABULARIES},
        )
