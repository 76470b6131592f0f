"""Claims that one setting is better than another, weighed against the spread over seeds.

A difference counts if Welch's t test, two-sided, finds it at 5 %, with Holm's correction over all
claims of an experiment: of many claims some would hold by chance. Where it finds none, two settings
count as alike if two one-sided tests of the same kind, at 5 % and with Holm's correction, find that
they differ by less than 1 % of the other's value, whichever is better. So a claim can be decided
where nothing differs; what remains is undecided for want of seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from anyseq.experiments.experiment import TINY, Judgement, Metric
from anyseq.experiments.table import Summary, Table

_LEVEL = 0.05
_ALIKE = 0.01  # a smaller difference, as a share of the value, is none


class Claim(NamedTuple):
    """gap: how much better the claim's favourite is; p: how likely a gap of that size is by chance,
    p_alike: how likely the runs would be if the two were not alike, both None if the runs cannot
    decide; by_default: whether it holds unless the runs contradict it."""

    text: str
    gap: float = 0.0
    p: float | None = None
    by_default: bool = False
    p_alike: float | None = None


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
    margin = _ALIKE * abs(second.mean)
    nearly = [
        _by_chance(first._replace(mean=first.mean + shift), second, side)
        for shift, side in ((margin, "greater"), (-margin, "less"))
    ]
    alike = max((p for p in nearly if p is not None), default=None)
    return Claim(text, gap, _by_chance(first, second), p_alike=alike)


def _by_chance(first: Summary, second: Summary, side: str = "two-sided") -> float | None:
    """Welch's p; a single seed shows no spread, so there is none."""
    from scipy.stats import ttest_ind_from_stats  # slow to import

    if first.spread is None or second.spread is None:
        return None
    if first.spread == second.spread == 0.0:  # t would be infinite
        gap = first.mean - second.mean
        seen = {"greater": gap > 0, "less": gap < 0}.get(side, gap != 0)
        return float(not seen)
    sides = (first.mean, first.spread, first.seeds), (second.mean, second.spread, second.seeds)
    found = ttest_ind_from_stats(*sides[0], *sides[1], equal_var=False, alternative=side)
    return float(found.pvalue)


def decided(claims: Sequence[Claim]) -> list[bool | None]:
    """Whether each claim holds; None if the runs cannot tell the two apart."""
    clear = _clear([claim.p for claim in claims])

    def holds(place: int, claim: Claim) -> bool | None:
        if place in clear:
            return claim.gap > 0
        return True if claim.by_default and claim.p is not None else None

    return [holds(place, claim) for place, claim in enumerate(claims)]


def alike(claims: Sequence[Claim]) -> list[bool]:
    """Whether the two settings of each claim have been shown to be alike."""
    clear = _clear([claim.p_alike for claim in claims])
    return [place in clear for place in range(len(claims))]


def _clear(found: Sequence[float | None]) -> set[int]:
    """The places whose p counts. Holm: in the order of p, the k-th of m (from 0) counts if
    p ≤ 5 % / (m - k) and all before it did. A missing p is among the m, so a missing run makes
    nothing else easier."""
    values = [1.0 if p is None else p for p in found]
    clear: set[int] = set()
    for k, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        if values[place] > _LEVEL / (len(values) - k):
            break
        clear.add(place)
    return clear


def judged(table: Table, claims: Sequence[Claim]) -> Judgement:
    """ "same" if all hold, "different" if one does not."""
    if table.scale == "tiny":
        return TINY
    heads = {False: "The other way round", None: "Undecided", True: "As claimed"}
    same = f"Alike within {_ALIKE:.0%}"
    parts: dict[str, list[str]] = {head: [] for head in (heads[False], same, *heads.values())}
    for claim, holds, equal in zip(claims, decided(claims), alike(claims), strict=True):
        parts[same if holds is None and equal else heads[holds]].append(claim.text)
    reason = ". ".join(f"{head}: {'; '.join(texts)}" for head, texts in parts.items() if texts)
    if {row["seed"] for row in table.rows} == {0}:
        reason = f"a single seed shows no spread. {reason}"
    if parts[heads[False]]:
        return Judgement("different", reason)
    return Judgement("undecided" if parts[heads[None]] or parts[same] else "same", reason)


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
