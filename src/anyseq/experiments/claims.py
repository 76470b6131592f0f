"""Claims that one setting is better than another, weighed against the spread over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from anyseq.experiments.experiment import Judgement, Metric
from anyseq.experiments.table import Table

_ERRORS = 2.0  # standard errors that a difference must exceed to count


class Claim(NamedTuple):
    """holds: None if the runs cannot tell."""

    holds: bool | None
    text: str


def beats(table: Table, metric: Metric, better: str, worse: str) -> Claim:
    """That `better` is; a difference of up to two standard errors, or a single seed, says
    nothing."""
    first, second = (table.summary(setting, metric.name) for setting in (better, worse))
    if first is None or second is None:
        missing = better if first is None else worse
        return Claim(None, f"not run yet: {missing}")
    gap = (first.mean - second.mean) * (1 if metric.higher_is_better else -1)
    text = f"{better} ({first.mean:.3f}) over {worse} ({second.mean:.3f})"
    if first.spread is None or second.spread is None:
        return Claim(None, text)
    error = math.sqrt(first.spread**2 / first.seeds + second.spread**2 / second.seeds)
    return Claim(None if abs(gap) <= _ERRORS * error else gap > 0, text)


def is_no_worse(table: Table, metric: Metric, setting: str, than: str) -> Claim:
    """That `setting` matches the other, or is better: whatever is not clearly worse does."""
    worse = beats(table, metric, than, setting)
    better = beats(table, metric, setting, than)
    known = all(table.summary(name, metric.name) is not None for name in (setting, than))
    return Claim(not worse.holds if known else None, better.text)


def judged(table: Table, claims: Sequence[Claim]) -> Judgement:
    """ "same" if all hold, "different" if one does not."""
    if table.scale == "tiny":
        return Judgement("not comparable", "tiny only shows that everything runs")
    if all(row["seed"] == 0 for row in table.rows):
        return Judgement("not comparable", "a single seed shows no spread")
    names = {False: "the other way round", None: "cannot be told", True: "as claimed"}
    parts = {holds: [claim.text for claim in claims if claim.holds is holds] for holds in names}
    reason = ". ".join(
        f"{names[holds].capitalize()}: {'; '.join(texts)}"
        for holds, texts in parts.items()
        if texts
    )
    if parts[False]:
        return Judgement("different", reason)
    return Judgement("not comparable" if parts[None] else "same", reason)


def about_real_data(table: Table, found: Judgement) -> Judgement:
    """The judgement, if every run has the metric real_data = 1: what stands in for the data shows
    that everything works, and no more."""
    runs = {(row["setting"], row["seed"]) for row in table.rows}
    real = {
        (row["setting"], row["seed"])
        for row in table.rows
        if (row["metric"], row["value"]) == ("real_data", 1.0)
    }
    if runs == real:
        return found
    return Judgement("not comparable", f"without the data. {found.reason}")
