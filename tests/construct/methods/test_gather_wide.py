"""Method "gather" in one wide layer, for designs of a small depth."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import anyseq as aq
from anyseq.base import generator, silent, uniform
from anyseq.construct import Approximation
from anyseq.construct.claims.facts import facts_of
from anyseq.construct.methods.gather import wide
from anyseq.construct.methods.gather.wide import WideRecipe
from anyseq.construct.request.ask import Ask
from anyseq.construct.request.target import Target
from anyseq.construct.tables.fused_ridges import RidgeTable
from anyseq.construct.verbs.claims import claim_of
from anyseq.errors import CannotApproximate, InvalidArgument
from anyseq.verify import verify
from construct.forgery import look_again
from construct.gathering.designs import designs, gathers
from construct.gathering.test_direct import needed
from construct.inputs import random
from construct.methods.test_gather_designs import build, check_built, reverse, running_max

Change = Callable[[torch.Tensor], torch.Tensor]


def shallow(design: aq.Design, wanted: str) -> aq.Design:
    return replace(design, depth=needed(design, wanted))


@given(designs(most=3))
@settings(max_examples=10, deadline=None)
def test_every_design_is_served_at_the_depth_that_check_asks_for(design: aq.Design) -> None:
    wanted = gathers(design)
    assume(wanted is not None)
    result = build(shallow(design, wanted or ""), wanted or "", tol=0.75)
    assert isinstance(result.fused, RidgeTable)
    assert len(result.model) == result.design.depth
    check_built(result, wanted or "")
    assert result.certificate is not None
    assert result.certificate.verify()


@pytest.mark.parametrize(
    ("design", "wanted"),
    [
        (aq.Design(3, aq.Window(1)), "all"),
        (aq.Design(3, aq.Causal() & aq.Window(1)), "causal"),
        (aq.Design(2, aq.Full(), aq.Rotary(), bos=True), "all"),
        (aq.Design(3, aq.Window(1), aq.URPE()), "all"),
    ],
    ids=str,
)
def test_one_layer_less_is_refused(design: aq.Design, wanted: str) -> None:
    """With the witness of `check`, where it has one; test_gather_designs.py has the gallery."""
    design = shallow(design, wanted)
    check_built(build(design, wanted, tol=0.75), wanted)
    assert design.depth is not None
    fewer = replace(design, depth=design.depth - 1)
    verdict = aq.check(fewer, target=wanted)
    assert not verdict.universal
    with pytest.raises(CannotApproximate) as caught:
        build(fewer, wanted)
    if verdict.universal is False:
        # for causal functions only, the witness is one against all functions
        assert str(aq.check(fewer).witness) in str(caught.value)


def waves(x: torch.Tensor) -> torch.Tensor:
    """1-Lipschitz, and not the same for any two tokens."""
    place = torch.arange(1, x.shape[1] + 1)[:, None]
    return (2 * x.mean(1, keepdim=True) + place).sin() / 4 + x.amax(1, keepdim=True) / 2


RESULTS: dict[str, tuple[aq.Design, dict[str, Any]]] = {
    "window": (aq.Design(3, aq.Window(1), depth=2), {}),
    "deeper": (aq.Design(2, depth=3), {}),
    "gains": (aq.Design(3, position=aq.URPE(), depth=1), {}),
    "sinusoidal": (aq.Design(2, position=aq.Sinusoidal(), depth=1), {}),
    "rounds, bos": (aq.Design(2, position=aq.Rotary(), bos=True, depth=2), {}),
    "modulus": (aq.Design(2, depth=1), {"lipschitz": lambda h: h}),
    "lp": (aq.Design(2, depth=1), {"norm": "lp"}),
    "features": (aq.Design(2, depth=1), {"features": 2, "lipschitz": [0.8, 0.8], "tol": 0.9}),
}


def make(name: str) -> Approximation:
    design, options = RESULTS[name]
    arguments = {"features": 1, "tol": 0.6, "lipschitz": 1.0} | options
    return aq.approximate(waves, design, method="gather", **arguments)


BUILT: dict[str, Approximation] = {}


def built(name: str) -> Approximation:
    if name not in BUILT:
        BUILT[name] = make(name)
    return BUILT[name]


@pytest.mark.parametrize("name", RESULTS)
def test_no_input_is_further_off_than_proved(name: str) -> None:
    """Random inputs, and ascent from the worst of them."""
    result = built(name)
    share = (result.size.tokens * result.size.out_features) ** -0.5 if name == "lp" else 1.0
    upper = sum(term.value for term in result.error.terms) * share * (1 + 1e-12)
    x = uniform(400, result.size.tokens, result.size.in_features, rng=generator(3))
    with torch.no_grad():
        assert float((result.model(x) - result(x)).abs().max()) <= 1e-9
    x.requires_grad_()
    for _ in range(12):
        error = (result(x) - waves(x)).abs().flatten(1).amax(1)
        assert float(error.detach().max()) <= upper
        (slope,) = torch.autograd.grad(error.sum(), x)
        x = (x + 0.03 * slope.sign()).clamp(0, 1).detach().requires_grad_()
    assert result.error.upper is not None
    assert result.error.lower <= result.error.upper <= result.facts.tol


@pytest.mark.parametrize("name", RESULTS)
def test_it_can_be_checked_again(name: str) -> None:
    certificate = built(name).certificate
    assert certificate is not None
    verification = certificate.verify()
    assert verification, verification
    why = {check.name: check.why for check in verification.checks}
    sampled = "SAMPLED, not proved" in why["front"]
    assert sampled is not ("read from the weights" in why["front"])
    assert "kinks of" in why["network"]
    assert why["balls"] == "balls do not run through one wide layer"


@given(
    st.sampled_from(["window", "gains", "rounds, bos"]),
    st.sampled_from(["up_weight", "up_bias", "down_weight"]),
    st.integers(0, 2**30),
    st.sampled_from([1e-3, -1.0, 1e3]),
)
@settings(max_examples=25, deadline=None)
def test_a_wrong_weight_is_found(name: str, tensor: str, at: int, change: float) -> None:
    """In the wide layer, wherever it is not 0 and has a say."""
    state = built(name).model.state_dict()
    weights, outputs = state[tensor].clone(), built(name).size.out_features
    last, says = weights[-1], state["down_weight"][-1, :outputs].any(0)
    # -7 or less shuts other tokens out: a little more or less of that is as good
    where = ((last != 0) & (last > -7)).nonzero()
    has_say = where[:, 0] < outputs if tensor == "down_weight" else says[where[:, 0]]
    where = where[has_say]
    last[tuple(where[at % len(where)])] += change
    assert not look_again(built(name), weights={tensor: weights})


def test_a_wrong_front_is_found() -> None:
    weights = built("window").model.state_dict()
    for tensor, factor in (("q_weight", 0.0), ("k_weight", -1.0), ("v_weight", 0.5)):
        assert not look_again(built("window"), weights={tensor: factor * weights[tensor]})
    for tensor in ("up_weight", "down_weight"):  # before the last half
        wrong = weights[tensor].clone()
        wrong[0] *= 0.5
        assert not look_again(built("window"), weights={tensor: wrong})


@pytest.mark.parametrize("tensor", ["values", "knots", "constant", "directions", "low", "first"])
def test_another_table_is_found(tensor: str) -> None:
    table = built("window").fused.tensors()
    wrong = table[tensor].clone()
    wrong.view(-1)[len(wrong.view(-1)) // 2] += 1
    assert not look_again(built("window"), table={tensor: wrong})


@pytest.mark.parametrize(
    ("tensor", "change"),
    [
        ("pieces", lambda pieces: pieces.double()),
        ("directions", lambda directions: directions[:, 0]),
        ("knots", lambda knots: knots[:-1]),
        ("knots", lambda knots: knots.float()),
        ("constant", lambda constant: constant[0]),
        ("pieces", lambda pieces: 0 * pieces),
        ("first", lambda first: first - 1),
        ("rate", lambda rate: -rate),
    ],
)
def test_tables_that_are_none_are_refused(tensor: str, change: Change) -> None:
    table = built("window").fused
    assert isinstance(table, RidgeTable)
    with pytest.raises(InvalidArgument):
        replace(table, **{tensor: change(table.tensors()[tensor])})  # type: ignore[arg-type]
    assert not look_again(built("window"), table={tensor: change(table.tensors()[tensor])})


@pytest.mark.parametrize("other", [(1, -1), (-1, -1), (1, 1)], ids=str)
def test_ridges_that_stand_in_for_others_are_found(
    other: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Π cos(πx_i) without its ridge along (1, -1): (-1, -1), the mirror image of (1, 1), has as
    many knots and the same amplitudes. Only the first of these networks is the kernel's."""
    recipe = aq.plan(aq.Design(2, depth=1), 1, 0.6, lipschitz=math.pi).choose("gather")
    assert isinstance(recipe, WideRecipe)
    swapped = recipe.ridges.directions.clone()
    swapped[(swapped == torch.tensor([1, -1])).all(1)] = torch.tensor(other)
    monkeypatch.setitem(recipe.ridges.__dict__, "directions", swapped)

    def product(x: torch.Tensor) -> torch.Tensor:
        return (math.pi * x).cos().prod(1, keepdim=True).expand(-1, 2, 1).contiguous()

    made = recipe.build(Target(product, 2, 1, None), silent)
    network = made.model()
    facts = facts_of(claim_of(recipe), network, made.fused)
    found = verify(facts, network=network, table=made.fused.tensors(), look_up=made.fused)
    middle = torch.full((1, 2, 1), 0.5, dtype=torch.float64)
    near = float((made.fused(middle) - product(middle)).abs().max()) <= claim_of(recipe).upper
    assert bool(found) is near is (other == (1, -1))


def test_another_claim_is_found() -> None:
    certificate = built("window").certificate
    assert certificate is not None
    claim = certificate.claim
    assert look_again(built("window"), claim=claim)
    for changed in (
        {"lipschitz": 4.0},
        {"lipschitz": 0.2},
        {"steps": claim.steps * 2},
        {"bound": claim.bound / 4},
        {"upper": claim.upper * 0.9},
        {"terms": tuple((name, on, value * 0.5) for name, on, value in claim.terms)},
    ):
        assert not look_again(built("window"), claim=replace(claim, **changed)), changed


def test_saved_and_loaded(tmp_path: Path) -> None:
    result = built("window")
    result.save(tmp_path / "r")
    loaded = aq.load(tmp_path / "r")
    x = random(result, 20)
    assert torch.equal(loaded(x), result(x))
    assert loaded.certificate is not None
    assert loaded.certificate.verify()
    result.export("torch.export", tmp_path / "r.pt2")
    program = torch.export.load(tmp_path / "r.pt2")
    assert float((program.module()(x) - result(x)).abs().max()) <= 1e-12


@pytest.mark.parametrize("name", ["window", "deeper", "gains"])
def test_it_is_explained(name: str) -> None:
    result = built(name)
    explained = result.explain(random(result, 1)[0])
    assert explained.apart is not None
    assert explained.apart <= 1e-9
    assert "every token adds up its own ridges" in str(explained)
    assert [step.stage.name for step in explained.steps] == {
        "window": ["gather", "ridges"],
        "deeper": ["ridges", "idle"],
        "gains": ["ridges"],
    }[name]


def test_the_plan_says_so() -> None:
    design = aq.Design(2, depth=1)
    plan = aq.plan(design, 1, 0.5, lipschitz=1.0)
    assert plan.choose("auto").method == "gather"
    (row,) = plan.rows()
    assert (row["step"], row["cells"]) == (None, 9)
    said = " ".join(str(plan).split())
    assert "gather - 1 7 2,867 9 -" in said  # no δ
    assert "gather: one wide layer, without δ: 8 ridges of cosines up to degree 2, 4 knots" in said
    result = aq.approximate(lambda x: x, design, features=1, tol=0.5, lipschitz=1.0)
    assert "4 knots to a half-wave, 9 values of f" in str(result)
    assert "δ" not in str(result)
    few = aq.plan(design, 1, 0.5, lipschitz=1.0, budget=2000)
    assert "2,867 parameters in 1 layers; the budget is 2,000" in few.refused["gather"]
    assert "wide" not in str(aq.plan(aq.Design(2), 1, 0.5, lipschitz=1.0))
    enough = aq.plan(aq.Design(2), 1, 0.5, lipschitz=1.0).choose("gather").shape.layers
    assert "wide" not in str(aq.plan(aq.Design(2, depth=enough), 1, 0.5, lipschitz=1.0))


@pytest.mark.parametrize(
    ("design", "arguments", "reason"),
    [
        (aq.Design(2, depth=1), {"curvature": 1.0}, "curvature alone will not do"),
        (aq.Design(8, depth=1), {"lipschitz": 1.0}, "directions"),
        (aq.Design(3, aq.Window(1), depth=1), {"lipschitz": 1.0}, "after 2 layers, depth is 1"),
    ],
    ids=str,
)
def test_refusals(design: aq.Design, arguments: dict[str, float], reason: str) -> None:
    assert reason in aq.plan(design, 1, 0.5, **arguments).refused["gather"]  # type: ignore[arg-type]


def test_an_estimate_may_be_refined() -> None:
    """Without constants nothing is proved, but the error seen is within the tolerance."""
    result = aq.approximate(reverse, aq.Design(2, depth=1), features=1, tol=0.4, method="gather")
    assert result.status == "conditional"
    x = random(result, 200)
    assert float((result(x) - reverse(x)).abs().max()) <= 0.4


def test_causal_functions() -> None:
    """Every token uses the ridges of tokens up to itself, and nothing of later ones."""
    design = aq.Design(3, aq.Causal(), aq.NoPosition(), bos=True)
    result = build(shallow(design, "causal"), "causal", tol=0.6)
    x = random(result, 20)
    y = x.clone()
    y[:, 2] = 0.5
    with torch.no_grad():
        assert torch.equal(result.model(x)[:, :2], result.model(y)[:, :2])
    assert float((result(x) - running_max(x)).abs().max()) <= (result.error.upper or 0)


def test_a_second_try_takes_the_next_degrees_not_as_many_as_there_are_knots() -> None:
    ask = Ask(
        design=aq.Design(2, depth=1),
        features=1,
        out_features=1,
        tol=0.5,
        norm="sup",
        p=2.0,
        lipschitz=1.0,
        bound=1.0,
    )
    first = wide.recipe(ask)
    again = wide.recipe(replace(ask, least_log_steps=first.log_steps + 1))
    assert again.log_steps > first.log_steps
    assert first.degree < again.degree <= 3 * first.degree
