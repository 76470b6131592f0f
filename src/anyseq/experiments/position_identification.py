"""Paper C, Position Identification: random tokens in, each token's position out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from anyseq.experiments.experiment import Judgement
from anyseq.experiments.position_tasks import PositionCell, PositionExperiment, judged
from anyseq.experiments.table import Table

_SIZES = {
    "tiny": PositionCell("", 60, 16, 3e-3, tokens=8, dim=32, heads=4, depth=2),
    "small": PositionCell("", 500, 32, 3e-3, tokens=32, dim=64, heads=4),
    "medium": PositionCell("", 3000, 32, 1e-3, warm_up=100, tokens=128, dim=128, heads=4),
    "paper": PositionCell("", 40_000, 512, 7e-5, warm_up=6_000),
}


class PositionIdentification(PositionExperiment):
    """y_i = i."""

    name, sizes = "position-identification", _SIZES
    claim = "URPE names every token's position; relative positions alone (RPE), or none, do not."
    note = "The paper's numbers are read off bars, ± 0.005."
    published: ClassVar[Mapping[str, float]] = {"none": 0.07, "rpe": 0.12, "urpe": 1.00}

    def judge(self, table: Table) -> Judgement:
        return judged(table, solved=("urpe", "absolute"), failed={"none": 0.5, "rpe": 0.5})
