"""Claims: the spread over seeds, many claims at once, and the judgements of text experiments."""

import math
from collections.abc import Mapping
from dataclasses import replace
from statistics import mean, variance

import pytest
from scipy.special import betainc

from anyseq.experiments import EXPERIMENTS, Table
from anyseq.experiments.claims import (
    Claim,
    about_real_data,
    alike,
    beats,
    decided,
    is_no_worse,
    judged,
)
from anyseq.experiments.experiment import Judgement, Metric
from anyseq.experiments.sparse import UNIONS

ACCURACY = Metric("accuracy", higher_is_better=True)


def table(
    name: str,
    values: Mapping[str, tuple[float, ...]],
    metric: str = "accuracy",
    real: float = 1.0,
) -> Table:
    rows = [
        {"setting": setting, "seed": seed, "metric": measured, "value": number}
        for setting, seeds in values.items()
        for seed, value in enumerate(seeds)
        for measured, number in ((metric, value), ("real_data", real))
    ]
    return Table(name, "small", rows)


def test_claims_are_weighed_against_the_spread() -> None:
    found = table(
        "",
        {
            "a": (0.5, 0.55, 0.6),
            "b": (0.2, 0.25, 0.3),
            "c": (0.3, 0.5, 0.7),
            "d": (0.9,),
            "f": (0.4, 0.4),
            "g": (0.4, 0.4),
        },
    )

    def holds(claim: Claim) -> bool | None:
        (one,) = decided([claim])
        return one

    assert holds(beats(found, ACCURACY, "a", "b")) is True
    assert holds(beats(found, ACCURACY, "b", "a")) is False
    assert holds(beats(found, ACCURACY, "a", "c")) is None
    assert holds(beats(found, ACCURACY, "d", "b")) is None  # a single seed
    assert holds(beats(found, ACCURACY, "f", "g")) is None
    assert holds(beats(found, ACCURACY, "a", "f")) is True
    assert beats(found, ACCURACY, "a", "e") == Claim("not run yet: e")
    assert holds(beats(found, Metric("accuracy", higher_is_better=False), "b", "a")) is True
    no_worse = is_no_worse(found, ACCURACY, "c", "a")
    assert (holds(no_worse), no_worse.text) == (True, "c (0.500) no worse than a (0.550)")
    assert holds(is_no_worse(found, ACCURACY, "b", "a")) is False
    assert holds(is_no_worse(found, ACCURACY, "e", "a")) is None
    assert holds(is_no_worse(found, ACCURACY, "d", "a")) is None


def test_welch_by_its_formula() -> None:
    one, other = (0.5, 0.6), (0.2, 0.3, 0.31)
    found = beats(table("", {"a": one, "b": other}), ACCURACY, "a", "b").p
    errors = [variance(values) / len(values) for values in (one, other)]
    t = (mean(one) - mean(other)) / math.sqrt(sum(errors))
    freedom = sum(errors) ** 2 / (errors[0] ** 2 / 1 + errors[1] ** 2 / 2)
    rest = freedom / (freedom + t**2)  # Student's distribution is an incomplete beta function
    assert found == pytest.approx(float(betainc(freedom / 2, 0.5, rest)))


def test_many_claims_are_held_to_more() -> None:
    def claims(*chances: float | None) -> list[bool | None]:
        return decided([Claim("", 1.0, p) for p in chances])

    assert claims(0.04) == [True]
    assert claims(0.04, 0.04) == [None, None]
    assert claims(0.04, 0.02) == [True, True]  # the smaller at 0.025, then the other at 0.05
    assert claims(0.04, None) == [None, None]
    assert claims(0.001, 0.03, 0.04) == [True, None, None]


def test_settings_that_differ_by_less_than_a_hundredth_are_alike() -> None:
    near = table("", {"a": (1.0, 1.001, 1.002), "b": (1.001, 1.002, 1.003), "c": (0.9, 1.0, 1.1)})
    claims = [beats(near, ACCURACY, "a", "b"), beats(near, ACCURACY, "a", "c")]
    assert decided(claims) == [None, None]
    assert alike(claims) == [True, False]  # the second: too few runs to tell
    far = table("", {"a": (1.0, 1.001, 1.002), "b": (1.02, 1.021, 1.022)})
    assert alike([beats(far, ACCURACY, "a", "b")]) == [False]
    text = judged(replace(near, rows=[*near.rows]), claims).reason
    assert text == (
        "Alike within 1%: a (1.001) over b (1.002). Undecided: a (1.001) over c (1.000)"
    )


def test_alike_by_its_formula() -> None:
    """Two one-sided tests: the shifted gap is compared with Student's distribution at both ends."""
    one, other = (1.0, 1.004), (1.0, 1.002)
    found = beats(table("", {"a": one, "b": other}), ACCURACY, "a", "b").p_alike
    errors = [variance(values) / len(values) for values in (one, other)]
    freedom = sum(errors) ** 2 / sum(error**2 for error in errors)
    gap, margin = mean(one) - mean(other), 0.01 * mean(other)
    ends = []
    for distance in (margin - gap, margin + gap):
        t = distance / math.sqrt(sum(errors))
        ends.append(float(betainc(freedom / 2, 0.5, freedom / (freedom + t**2))) / 2)
    assert found == pytest.approx(max(ends))


ORDERED = {"attention": 0.6, "bproj": 0.5, "sepconv": 0.5, "average": 0.3}
HYBRIDS = {"hybrid-1": 0.61, "hybrid-2": 0.6, "hybrid-3": 0.55}
PERPLEXITIES = {"rpe": 24.0, "urpe": 23.2} | {
    f"{pattern}, sparsity {level}": value
    for level in (0.5, 0.65)
    for pattern, value in zip(UNIONS, (30.0, 33.0, 31.0, 35.0), strict=True)
}


@pytest.mark.parametrize(
    ("name", "values", "word"),
    [
        ("classification", ORDERED, "same"),
        ("classification", ORDERED | {"average": 0.7}, "different"),
        ("classification", ORDERED | {"average": 0.5}, "undecided"),
        ("classification", {"attention": 0.6}, "undecided"),
        ("masked-lm", ORDERED | HYBRIDS, "same"),
        ("masked-lm", ORDERED | HYBRIDS | {"hybrid-1": 0.4}, "different"),
        ("masked-lm", ORDERED | HYBRIDS | {"hybrid-2": 0.4}, "different"),
        ("masked-lm", ORDERED | HYBRIDS | {"hybrid-3": 0.7}, "different"),
        ("masked-lm", ORDERED, "undecided"),
        ("language-model", PERPLEXITIES, "same"),
        ("language-model", PERPLEXITIES | {"urpe": 25.0}, "different"),
        ("language-model", PERPLEXITIES | {"random, sparsity 0.65": 20.0}, "different"),
        ("language-model", {"urpe": 23.2}, "undecided"),
    ],
)
def test_judgements(name: str, values: Mapping[str, float], word: str) -> None:
    seeds = {setting: (value * 0.999, value, value * 1.001) for setting, value in values.items()}
    metric = EXPERIMENTS[name].metric.name
    assert EXPERIMENTS[name].judge(table(name, seeds, metric)).word == word
    tiny = replace(table(name, seeds, metric), scale="tiny")
    assert EXPERIMENTS[name].judge(tiny).word == "undecided"
    stand_in = EXPERIMENTS[name].judge(table(name, seeds, metric, real=0.0))
    assert (stand_in.word, "without the data" in stand_in.reason) == ("undecided", True)


def test_a_run_without_the_mark_is_not_about_real_data() -> None:
    marked = table("masked-lm", {"a": (0.1, 0.2)})
    assert about_real_data(marked, Judgement("same", "")).word == "same"
    (*others, last) = marked.rows
    assert last["metric"] == "real_data"
    unmarked = replace(marked, rows=others)
    assert about_real_data(unmarked, Judgement("same", "")).word == "undecided"
