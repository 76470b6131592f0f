"""Claims that one setting is better than another, weighed against the spread over seeds.

A difference counts if Welch's t test, two-sided, finds it at 5 %, with Holm's correction over all
claims of an experiment: of many claims some would hold by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from anyseq.experiments.experiment import TINY, Judgement, Metric
from anyseq.experiments.table import Summary, Table

_LEVEL = 0.05


class Claim(NamedTuple):
    """gap: how much better the claim's favourite is; p: how likely a gap of that size is by chance,
    None if the runs cannot decide; by_default: whether it holds unless the runs contradict it."""

    text: str
    gap: float = 0.0
    p: float | None = None
    by_default: bool = False


def beats(table: Table, metric: Metric, better: str, worse: str) -> Claim:
    """The claim that `better` is better than the other."""
    return _claim(table, metric, better, "over", worse)


def is_no_worse(table: Table, metric: Metric, setting: str, than: str) -> Claim:
    """The claim that `setting` is no worse than the other: it holds unless clearly worse."""
    return _claim(table, metric, setting, "no worse than", than)._replace(by_default=True)


def _claim(table: Table, metric: Metric, favourite: str, relation: str, other: str) -> Claim:
    first, second = (table.summary(setting, metric.name) for setting in (favourite, other))
    if first is None or second is None:
        return Claim(f"not run yet: {favourite if first is None else other}")
    gap = (first.mean - second.mean) * (1 if metric.higher_is_better else -1)
    text = f"{favourite} ({first.mean:.3f}) {relation} {other} ({second.mean:.3f})"
    return Claim(text, gap, _by_chance(first, second))


def _by_chance(first: Summary, second: Summary) -> float | None:
    """Welch's p; a single seed shows no spread, so there is none."""
    from scipy.stats import ttest_ind_from_stats  # slow to import

    if first.spread is None or second.spread is None:
        return None
    if first.spread == second.spread == 0.0:  # t would be infinite
        return float(first.mean == second.mean)
    sides = (first.mean, first.spread, first.seeds), (second.mean, second.spread, second.seeds)
    return float(ttest_ind_from_stats(*sides[0], *sides[1], equal_var=False).pvalue)


def decided(claims: Sequence[Claim]) -> list[bool | None]:
    """Whether each claim holds; None if the runs cannot decide.

    Holm: in the order of p, the k-th of m (from 0) counts if p ≤ 5 % / (m - k) and all before it
    did. A claim without p is among the m, so a missing run makes no other claim easier.
    """
    order = sorted(range(len(claims)), key=lambda place: _p(claims[place]))
    clear: set[int] = set()
    for k, place in enumerate(order):
        if _p(claims[place]) > _LEVEL / (len(claims) - k):
            break
        clear.add(place)

    def holds(place: int, claim: Claim) -> bool | None:
        if place in clear:
            return claim.gap > 0
        return True if claim.by_default and claim.p is not None else None

    return [holds(place, claim) for place, claim in enumerate(claims)]


def _p(claim: Claim) -> float:
    return 1.0 if claim.p is None else claim.p


def judged(table: Table, claims: Sequence[Claim]) -> Judgement:
    """ "same" if all hold, "different" if one does not."""
    if table.scale == "tiny":
        return TINY
    if {row["seed"] for row in table.rows} == {0}:
        return Judgement("undecided", "a single seed shows no spread")
    names = {False: "the other way round", None: "undecided", True: "as claimed"}
    found = decided(claims)
    parts = {
        holds: [claim.text for claim, one in zip(claims, found, strict=True) if one is holds]
        for holds in names
    }
    reason = ". ".join(
        f"{names[holds].capitalize()}: {'; '.join(texts)}"
        for holds, texts in parts.items()
        if texts
    )
    if parts[False]:
        return Judgement("different", reason)
    return Judgement("undecided" if parts[None] else "same", reason)


def about_real_data(table: Table, found: Judgement) -> Judgement:
    """The judgement, if every run has the metric real_data = 1: the substitute for the data only
    shows that everything works."""
    runs = {(row["setting"], row["seed"]) for row in table.rows}
    real = {
        (row["setting"], row["seed"])
        for row in table.rows
        if (row["metric"], row["value"]) == ("real_data", 1.0)
    }
    if runs == real:
        return found
    return Judgement("undecided", f"without the data. {found.reason}")
