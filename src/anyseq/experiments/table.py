"""Rows of results, and their statistics over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from anyseq.experiments.record import Record

Row = dict[str, Any]
"""{experiment, scale, setting, seed, metric, value}."""

SPEEDS = ("steps_per_second", "data_share", "speed_against_torch")
"""Metrics that say as much about the machine, and what else ran on it, as about the experiment."""


class Summary(NamedTuple):
    """mean and spread (the standard deviation; None for a single run) over so many seeds."""

    mean: float
    spread: float | None
    lowest: float
    highest: float
    seeds: int


class Point(NamedTuple):
    """Of a learning curve: mean, lowest and highest over the seeds that were measured there."""

    step: int
    mean: float
    lowest: float
    highest: float


@dataclass(frozen=True)
class Table:
    """The rows of one experiment at one scale.

    left_out: the runs, by setting and seed, that are there but have another configuration.
    records: of the runs, those that are known."""

    experiment: str
    scale: str
    rows: Sequence[Row]
    left_out: Sequence[str] = ()
    records: Sequence[Record] = ()

    @property
    def settings(self) -> list[str]:
        """Those that have rows, in their order."""
        return list(dict.fromkeys(row["setting"] for row in self.rows))

    @property
    def metrics(self) -> list[str]:
        """All that were measured."""
        return list(dict.fromkeys(row["metric"] for row in self.rows))

    def summary(self, setting: str, metric: str) -> Summary | None:
        """Over the seeds that there are; None without any."""
        values = [
            float(row["value"])
            for row in self.rows
            if (row["setting"], row["metric"]) == (setting, metric)
        ]
        if not values:
            return None
        mean = math.fsum(values) / len(values)
        spread = None
        if len(values) > 1:
            spread = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))
        return Summary(mean, spread, min(values), max(values), len(values))

    def curve(self, setting: str, metric: str) -> list[Point]:
        """The metric on held-out data, against steps; empty without records."""
        at: dict[int, list[float]] = {}
        for record in self.records:
            if record.setting == setting:
                for step, value in record.points(metric):
                    at.setdefault(step, []).append(value)
        return [
            Point(step, math.fsum(values) / len(values), min(values), max(values))
            for step, values in sorted(at.items())
        ]

    def means(self, metric: str) -> dict[str, float]:
        """setting -> mean over the seeds, where there are any."""
        found = {setting: self.summary(setting, metric) for setting in self.settings}
        return {setting: one.mean for setting, one in found.items() if one is not None}
