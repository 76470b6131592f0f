"""What the page asks the library."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import anyseq as aq
from anyseq.errors import AnyseqError, InvalidArgument
from anyseq.graph import reach, refine
from anyseq.play import api
from anyseq.play.api import approximate_function, check_design

BAND = [[int(abs(i - j) == 3 or i == j) for j in range(60)] for i in range(60)]


def test_check_says_what_the_library_says() -> None:
    answer = check_design({"tokens": 5, "pattern": "window(1)", "position": "rope", "bos": True})
    design = aq.Design(5, aq.Window(1), position=aq.Rotary(), bos=True)
    for said in answer["verdicts"]:
        verdict = aq.check(design, norm=said["norm"], target=said["target"])
        assert said["universal"] == verdict.universal
        assert (said["headline"], said["reason"]) == (verdict.headline, verdict.reason)
        assert len(said["findings"]) == len(verdict.findings)
    assert len(answer["verdicts"]) == 6
    assert len(answer["reach"]) == reach(design).layers_per_pair().max() + 1
    assert answer["reach"][0] == torch.eye(5, dtype=torch.int64).tolist()
    assert all(all(row) for row in answer["reach"][-1])
    found = refine(design)
    assert answer["colours"][0] == [0] * 5
    assert len(answer["colours"]) == found.rounds + 1
    assert answer["colours"][-1] == found.classes.tolist()
    json.dumps(answer, allow_nan=False)


def test_check_takes_masks_cycles_and_depths() -> None:
    mask = [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    one = check_design({"tokens": 3, "mask": mask, "depth": 1})
    assert one["reach"][-1] == mask
    two = check_design({"tokens": 3, "mask": [mask, [[1, 1, 1]] * 3], "position": "none"})
    assert two["reach"][1] == mask
    assert all(map(all, two["reach"][2]))
    named = check_design({"tokens": 4, "pattern": ["window(1)", "full"]})
    assert len(named["reach"]) == 3


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "tokens=None"),
        ({"tokens": 65}, "from 1 to 64"),
        ({"tokens": True}, "tokens=True"),
        ({"tokens": 2.0}, "tokens=2.0"),
        ({"tokens": 3, "mask": [[1, 0], [0, 1]]}, "3 rows of 3"),
        ({"tokens": 2, "mask": [[1, 2], [0, 1]]}, "each 0 or 1"),
        ({"tokens": 2, "mask": []}, "2 rows of 2"),
        ({"tokens": 2, "mask": [[1, 0], [0, 1]], "pattern": "full"}, "one of the two"),
        ({"tokens": 2, "pattern": []}, "0 of them"),
        ({"tokens": 2, "pattern": "windw(1)"}, "windw"),
        ({"tokens": 2, "pattern": 5}, "expected text"),
        ({"tokens": 2, "pattern": "(" * 401}, "400 characters"),
        ({"tokens": 2, "position": "sideways"}, "sideways"),
        ({"tokens": 2, "prob_map": "max"}, "max"),
        ({"tokens": 2, "bos": 1}, "true or false"),
        ({"tokens": 2, "depth": 0}, "depth=0"),
        ({"tokens": 2, "seconds": 9999}, "seconds"),
    ],
)
def test_a_wrong_question_is_named(body: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_design(body)
    assert said in str(caught.value)


def test_a_formula_becomes_a_network() -> None:
    formula = "max(x[0], x[1]) + 0.5*sin(3*x[i])"
    answer = approximate_function({"formula": formula, "tokens": 2, "tol": 0.1})
    network = answer["network"]
    assert network["formula"] == formula
    assert 0 < network["lower"] <= network["upper"] <= 0.1
    assert network["status"] == "certified-float64"
    assert "Lipschitz constant at most 2.5" in answer["notes"][0]
    json.dumps(answer, allow_nan=False)


def test_a_built_in_function_brings_its_own_constants() -> None:
    answer = approximate_function(
        {"function": "reverse", "tokens": 3, "tol": 0.1, "pattern": "window(1)"}
    )
    assert answer["network"]["upper"] < 1e-9
    assert answer["notes"] == []


def test_what_is_not_proved_is_said_to_be_estimated() -> None:
    body = {"formula": "sqrt(x[i] + 0.01*x[i]*(1 - x[i]) - 0.001*0)", "tokens": 1, "tol": 0.3}
    answer = approximate_function(body)
    assert answer["network"]["upper"] is None
    assert answer["notes"][0].startswith("unproved: constant estimated")


def test_a_refusal_comes_with_its_reasons() -> None:
    answer = approximate_function({"function": "sort", "tokens": 3, "tol": 0.1, "position": "rope"})
    assert "network" not in answer
    assert answer["refused"].startswith("not every f can be expressed by this design")
    assert "On identical tokens" in answer["reasons"][0]
    small = approximate_function({"function": "waves", "tokens": 4, "tol": 1e-6})
    assert small["refused"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"tokens": 2, "tol": 0.1}, "function or formula"),
        ({"function": "sort", "formula": "x[i]", "tokens": 2, "tol": 0.1}, "one of the two"),
        ({"function": "os.system", "tokens": 2, "tol": 0.1}, "os.system"),
        ({"formula": "x.y", "tokens": 2, "tol": 0.1}, "column 1"),
        ({"formula": "x[2]", "tokens": 2, "tol": 0.1}, "0 to 1"),
        ({"formula": "x[i]", "tokens": 7, "tol": 0.1}, "from 1 to 6"),
        ({"formula": "x[i]", "tokens": 2}, "tol=None"),
        ({"formula": "x[i]", "tokens": 2, "tol": 0}, "tol=0"),
        ({"formula": "x[i]", "tokens": 2, "tol": 10**400}, "up to 1e+06"),
        ({"formula": "x[i]", "tokens": 2, "tol": True}, "tol=True"),
        ({"formula": "x[i]", "tokens": 2, "tol": 0.1, "method": "fit"}, "fit"),
        ({"formula": "x[i]", "tokens": 2, "tol": 0.1, "position": "shaw"}, "shaw"),
        ({"formula": "x[i]", "tokens": 2, "tol": 0.1, "prob_map": "hardmax"}, "softmax"),
        ({"formula": "x[i]", "tokens": 2, "tol": 0.1, "budget": 10**12}, "budget"),
    ],
)
def test_a_wrong_wish_is_named(body: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        approximate_function(body)
    assert said in str(caught.value)


def test_time_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "NETWORK_SECONDS", 0.0)
    with pytest.raises(api.TookTooLong, match="fewer"):
        approximate_function({"formula": "sin(x[i])", "tokens": 2, "tol": 0.1})
    monkeypatch.setattr(api, "CHECK_SECONDS", 0.0)
    with pytest.raises(api.TookTooLong, match="fewer"):
        check_design({"tokens": 60, "mask": BAND, "position": "none"})


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 9), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=2)
    ),
    max_leaves=12,
)
FIELDS = ["tokens", "mask", "pattern", "position", "bos", "depth", "prob_map"]


@settings(max_examples=150, deadline=None)
@given(
    body=st.dictionaries(st.sampled_from([*FIELDS, "more"]), VALUES, max_size=5),
    tokens=st.integers(1, 4),
)
def test_any_json_is_answered_or_refused(body: dict[str, Any], tokens: int) -> None:
    for question in (body, {**body, "tokens": tokens}):
        with suppress(AnyseqError):
            json.dumps(check_design(question), allow_nan=False)
