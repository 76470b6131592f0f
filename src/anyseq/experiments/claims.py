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
    text = f"{better} {first.mean:.3f}, {worse} {second.mean:.3f}"
    if first.spread is None or second.spread is None:
        return Claim(None, f"{text} with a single seed")
    error = math.sqrt(first.spread**2 / first.seeds + second.spread**2 / second.seeds)
    return Claim(None if abs(gap) <= _ERRORS * error else gap > 0, text)


def is_no_worse(table: Table, metric: Metric, setting: str, than: str) -> Claim:
    """That `setting` matches the other, or is better: whatever is not clearly worse does."""
    found = beats(table, metric, than, setting)
    known = all(table.summary(name, metric.name) is not None for name in (setting, than))
    return Claim(not found.holds if known else None, found.text)


def judged(table: Table, claims: Sequence[Claim]) -> Judgement:
    """ "same" if all hold, "different" if one does not."""
    if table.scale == "tiny":
        return Judgement("not comparable", "tiny only shows that everything runs")
    parts = {
        "against the claim": [claim.text for claim in claims if claim.holds is False],
        "undecided": [claim.text for claim in claims if claim.holds is None],
        "as claimed": [claim.text for claim in claims if claim.holds],
    }
    reason = "; ".join(f"{name}: {' / '.join(texts)}" for name, texts in parts.items() if texts)
    if parts["against the claim"]:
        return Judgement("different", reason)
    return Judgement("not comparable" if parts["undecided"] else "same", reason)
