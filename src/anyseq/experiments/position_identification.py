"""Paper C, Position Identification: random tokens in, each token's position out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from anyseq.experiments.experiment import TINY, Judgement
from anyseq.experiments.position_tasks import (
    VOCABULARIES,
    PositionCell,
    PositionExperiment,
    by_vocabulary,
    judged,
    named,
)
from anyseq.experiments.table import Table

_SIZES = {
    "tiny": PositionCell("", 60, 16, 3e-3, tokens=8, dim=32, heads=4, depth=2),
    "small": PositionCell("", 500, 32, 3e-3, points=20, tokens=32, dim=64, heads=4),
    "medium": PositionCell("", 3000, 32, 1e-3, warm_up=100, tokens=128, dim=128, heads=4),
    "paper": PositionCell("", 40_000, 512, 7e-5, warm_up=6_000),
}
_WELL_BELOW = 0.5


class PositionIdentification(PositionExperiment):
    """y_i = i."""

    name, sizes = "position-identification", _SIZES
    claim = "URPE names every token's position; relative positions alone (RPE), or none, do not."
    note = (
        "A vocabulary of 10 tokens unless another is named. The paper's numbers are read off bars, "
        "± 0.005."
    )
    published: ClassVar[Mapping[str, float]] = by_vocabulary(
        {"none": (0.07, 0.06, 0.05), "rpe": (0.12, 0.11, 0.10), "urpe": (1.00, 1.00, 1.00)}
    )

    def judge(self, table: Table) -> Judgement:
        if table.scale == "tiny":
            return TINY

        def each(*positions: str) -> list[str]:
            return [named(position, vocab) for vocab in VOCABULARIES for position in positions]

        return judged(
            table,
            solved=each("urpe", "absolute"),
            failed=dict.fromkeys(each("none", "rpe"), _WELL_BELOW),
        )
