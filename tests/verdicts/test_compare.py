"""Designs and models side by side."""

from __future__ import annotations

import json
from dataclasses import replace

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

import anyseq as aq
from anyseq.design import parse_design
from anyseq.errors import InvalidArgument
from anyseq.graph import dilution
from anyseq.verdicts import Costs
from anyseq.verdicts.costs import costs
from anyseq.verdicts.positions_from import positions_from
from verdicts.designs import designs

CAUSAL = aq.Causal()


def cells(comparison: aq.Comparison, label: str) -> tuple[str, ...]:
    return dict(comparison.rows)[label]


def test_a_report_card() -> None:
    local = aq.Design(64, CAUSAL & aq.Window(8), aq.Rotary(), bos=True)
    words = "3 x causal & window(8) then causal, rope, depth 2"
    found = aq.compare(local, words, tokens=64, target="causal", names=["near", "mixed"])
    near, mixed = found.cards
    verdict = aq.check(local, target="causal")
    assert (near.universal, near.reason) == (verdict.universal, verdict.reason)
    assert (near.name, near.subject, near.tokens) == ("near", verdict.subject, 64)
    assert verdict.reach is not None
    assert (near.layers, near.last) == (8, verdict.reach.last)
    assert near.dilution == dilution(local, "causal")
    assert mixed.subject == words
    assert (mixed.layers, mixed.depth) == (4, 2)
    assert cells(found, "all pairs meet") == ("after 8 layers", "after 4 layers; it has 2")
    assert cells(found, "last to meet")[0] == "token 0 reaches token 57"
    assert cells(found, "keys kept in a cache") == ("9 a layer", "9 a layer, 18 in all")
    assert cells(found, "positions")[0] == "found by layer 8, from BOS and offsets"
    text = str(found)
    assert max(map(len, text.splitlines())) <= 80
    assert "64 tokens: can it express every causal function in sup norm?" in text
    assert json.loads(json.dumps(found.to_dict()))["subjects"][1]["costs"]["kept"] == 9


def test_whatever_check_takes() -> None:
    module = torch.nn.Linear(3, 3)
    unread = {"model_type": "fnet", "num_hidden_layers": 1}
    near = torch.ones(16, 16, dtype=torch.bool).tril()
    found = aq.compare(aq.Window(2), near, {"model_type": "gpt2"}, unread, module, tokens=16)
    assert [card.tokens for card in found.cards] == [16, 16, 16, None, None]
    assert cells(found, "positions")[3] == "no design describes it"
    assert cells(found, "can it?")[3].startswith("unknown: ")
    assert "B: no layer attends to later tokens; for causal" in str(found)
    assert max(map(len, str(found).splitlines())) <= 80


def test_questions_and_lengths_that_differ_are_rows() -> None:
    found = aq.compare(aq.Design(4), aq.Design(8), target="equivariant", norm="lp")
    assert cells(found, "tokens") == ("4", "8")
    assert "asked" not in dict(found.rows)
    causal = replace(found.cards[0], target="causal")
    both = aq.Comparison((causal, found.cards[1]))
    assert cells(both, "asked") == (
        "every causal function in L^p",
        "every equivariant function in L^p",
    )


def test_many_stand_below_one_another() -> None:
    found = aq.compare(*["full"] * 30, tokens=4)
    assert [card.name for card in found.cards][-1] == "30"
    text = str(found)
    assert text.count("diluted pairs") == 8
    assert max(map(len, text.splitlines())) <= 80
    alone = aq.compare("full", "full", tokens=1).cards[1]
    assert (alone.name, alone.missing) == ("B", {"dilution": "only one token"})


def test_no_time_is_not_known() -> None:
    slow = "causal & strided(3), rope"
    (card,) = aq.compare(slow, tokens=3000, seconds=1e-9).cards
    assert card.missing["dilution"] == "not found in 1e-09 s"
    assert card.dilution is None
    assert "not found in" in str(aq.Comparison((card,)))


def test_too_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyseq.graph.visible._MOST_EDGES", 100)
    (card,) = aq.compare(aq.Fixed(4), tokens=64).cards
    assert card.missing["dilution"] == "too many connections: use fewer tokens"
    assert card.missing["costs"] == card.missing["dilution"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("full", "absolute at the input"),
        ("full, sinusoidal", "sinusoidal at the input"),
        ("full, rope", "none: identical tokens stay identical"),
        ("causal, rope, bos", "found by layer 1, from BOS and offsets"),
        ("causal & window(2), rope, bos", "found by layer 4, from BOS and offsets"),
        ("full, urpe(none)", "found by layer 1, from gains"),
        ("causal, none, sinks", "found by layer 1, from sinks"),
        ("causal & ~window(0), none", "found by layer 2, from the tokens attended to"),
        ("window(1), urpe(none), depth 1", "in part: identical tokens fall into 3 kinds"),
        ("(recurrence)", "found by layer 1, from a recurrence"),
    ],
)
def test_positions(words: str, says: str) -> None:
    assert positions_from(parse_design(words, 8)) == says
    assert positions_from(parse_design(words, 1)) == "only one token"


def test_positions_of_a_graph_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyseq.graph.refinement._MOST_EDGES", 4)
    assert positions_from(parse_design("window(2), rope, bos", 8)) == "not known"


def test_costs() -> None:
    assert costs(aq.Design(8)) == Costs(1, 0, 8.0, None)
    assert costs(aq.Design(8, CAUSAL)) == Costs(1, 0, 4.5, 8.0)
    assert costs(parse_design("3 x causal & window(1) then causal, depth 6", 8)) == Costs(
        6, 0, (5 * 15 / 8 + 4.5) / 6, (5 * 2 + 8) / 6
    )
    assert costs(parse_design("causal then recurrence, depth 3", 8)) == Costs(2, 1, 4.5, 8.0)
    assert costs(parse_design("(recurrence)", 8)) == Costs(0, 1, None, None)


@settings(max_examples=50)
@given(design=designs() | designs(mixers=True), target=st.sampled_from([None, "causal"]))
def test_every_design_has_a_card(design: aq.Design, target: str | None) -> None:
    found = aq.compare(design, design, target=target)
    assert max(map(len, str(found).splitlines())) <= 80
    (card, again) = found.cards
    assert replace(again, name="A") == card
    json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("subjects", "options", "message"),
    [
        ((), {}, "subjects: none were given"),
        (("full", "causal"), {"tokens": 4, "names": ["one"]}, "expected a list of 2"),
        (("full", "causal"), {"tokens": 4, "names": "AB"}, "names='AB'"),
        (("full",), {}, "subject 1: tokens=None"),
        (("full", "nothing"), {"tokens": 4}, "subject 2: design 'nothing'"),
        ((aq.Design(4), 3), {}, "subject 2: what=3"),
        ((aq.Design(4),), {"tokens": 5}, "tokens=5, but the design has 4"),
        ((aq.Design(4),), {"target": "some"}, "target='some'"),
        (("full",), {"tokens": 0}, "tokens=0"),
    ],
)  # fmt: skip
def test_bad_input(subjects: tuple[object, ...], options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgument) as problem:
        aq.compare(*subjects, **options)  # type: ignore[arg-type]
    assert message in str(problem.value)


def test_long_names_and_words_keep_to_eighty_columns() -> None:
    words = "|".join(f"window({radius})" for radius in range(1, 20))
    found = aq.compare(words, "full", tokens=32, names=["a name of several words", "n" * 60])
    assert max(map(len, str(found).splitlines())) <= 80
