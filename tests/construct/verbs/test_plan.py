from typing import Any

import pytest

import anyseq as aq
from anyseq.base import extra_bytes
from anyseq.construct.methods import METHODS
from anyseq.errors import CannotApproximate, InvalidArgument


def arguments_of(changed: dict[str, Any], **usual: Any) -> dict[str, Any]:
    return usual | changed


def test_cheapest_first_and_auto_takes_it() -> None:
    plan = aq.plan(aq.Design(3), 1, 0.1, lipschitz=1.0, norm="lp")
    assert [recipe.method for recipe in plan.recipes] == [
        "yun",
        "boltzmann",
        "gather",
        "partition",
        "fit",
    ]
    sizes = [recipe.shape.parameters for recipe in plan.recipes[:3]]
    assert sizes == sorted(sizes)
    assert plan.choose("auto") is plan.recipes[0]
    assert plan.choose("gather") is plan.recipes[2]


def test_what_goes_beyond_the_design_is_taken_by_name_only() -> None:
    plan = aq.plan(aq.Design(2), 1, 0.1, lipschitz=1.0, budget=1000)
    assert [recipe.method for recipe in plan.recipes] == ["partition"]
    assert plan.choose("partition") is plan.recipes[0]
    note = "partition: only by name, since its memory tokens are not part of the design"
    assert note in str(plan)
    with pytest.raises(CannotApproximate, match="only by name"):
        plan.choose("auto")


@pytest.mark.parametrize("norm", ["sup", "lp"])
@pytest.mark.parametrize("tol", [0.5, 0.1, 0.03])
def test_every_candidate_meets_the_tolerance_with_the_coarsest_grid(norm: str, tol: float) -> None:
    from dataclasses import replace

    from anyseq.construct.request.error import combine

    plan = aq.plan(aq.Design(2), 1, tol, lipschitz=1.0, norm=norm)
    assert plan.recipes
    for recipe in plan.recipes:
        if not recipe.terms:  # nothing is proved
            assert recipe is plan.recipes[-1]
            continue
        assert combine(recipe.terms, norm, 2) <= tol
        coarser = replace(recipe, log_steps=recipe.log_steps - 1)  # type: ignore[type-var]
        if coarser.log_steps >= 1:
            assert combine(coarser.terms, norm, 2) > tol


def test_what_is_printed_fits_a_screen_and_says_why_not() -> None:
    text = str(aq.plan(aq.Design(4), 1, 0.05, lipschitz=2.0))
    assert "yun: its guarantee is in L^p only" in text
    assert "4 tokens x 1 -> 1 features, error <= 0.05 in sup norm" in text
    assert repr(aq.plan(aq.Design(2), 1, 0.1, lipschitz=1.0)).count("gather") == 1
    for line in str(aq.plan(aq.Design(2), 1, 0.1, lipschitz=1.0, norm="lp")).splitlines():
        assert len(line) <= 80


def test_padding_is_shown() -> None:
    text = str(aq.plan(aq.Design(2), 1, 0.2, lipschitz=1.0, norm="lp", out_features=2))
    assert "yun: 1 features of zeros are added to hold the outputs" in text


@pytest.mark.parametrize(
    ("design", "arguments", "reason"),
    [
        (aq.Design(2), {"budget": 1000}, "parameters in 580 layers"),
        (aq.Design(4), {"tol": 1e-4, "lipschitz": 9.0}, "bits and float64 holds 53"),
        (aq.Design(8), {"tol": 0.3}, "nodes in 8 dimensions"),
        (aq.Design(1), {"tol": 1e-12}, "below the proved bound for rounding"),
        (aq.Design(20000), {}, "over 2^"),
        (aq.Design(600), {}, "take 1223 bits"),
        (aq.Design(2), {"bound": 1e17}, "for |f| <= 1e+17"),
        (aq.Design(2, patterns=aq.Causal()), {}, "built for dense attention"),
        (aq.Design(2, prob_map="hardmax"), {}, "built for softmax, not for hardmax"),
        (aq.Design(2, feedforward=False), {}, "needs feed-forward layers"),
        (aq.Design(2, bos=True), {}, "designs with bos=False"),
        (aq.Design(2, final_norm="rmsnorm"), {}, "designs with final_norm=None"),
        (aq.Design(2, depth=7), {}, "580 layers; the design has depth=7"),
        (aq.Design(2, depth=1), {"tol": 1e-3}, "and in one wide layer it needs cosines of degree"),
        (aq.Design(2, position=aq.NoPosition()), {}, "gather: it needs a design that gathers"),
        (aq.Design(2, position=aq.NoPosition()), {"tol": 1e-3}, "yun: it needs δ <= 2^-"),
    ],
)
def test_refusals_say_what_stands_in_the_way(
    design: aq.Design, arguments: dict[str, Any], reason: str
) -> None:
    plan = aq.plan(design, 1, **arguments_of(arguments, tol=0.05, lipschitz=1.0, norm="lp"))
    assert reason in " ".join(str(plan).split())
    if not plan.recipes:
        with pytest.raises(CannotApproximate, match="no construction meets tol") as caught:
            plan.choose("auto")
        refuted = aq.check(design, norm="lp").universal is False
        said = [why for why in caught.value.reasons if why.split(":")[0] in METHODS]
        assert len(said) == len(METHODS)
        assert ("not every f can be expressed" in caught.value.reasons[0]) == refuted


def test_a_tolerance_below_rounding_says_so() -> None:
    plan = aq.plan(aq.Design(1), 1, 1e-15, lipschitz=0.0, bound=5.0)
    assert "below the proved bound for rounding" in plan.refused["gather"]
    assert "no method does it" in str(plan)


def test_many_features_are_refused_as_clearly() -> None:
    plan = aq.plan(aq.Design(2), 2000, 0.1, lipschitz=1.0, norm="lp")
    assert not plan.recipes
    assert "bits and float64 holds 53" in plan.refused["yun"]


def test_a_design_for_causal_functions_says_so() -> None:
    design = aq.Design(2, patterns=aq.Causal(), position=aq.Rotary(), bos=True)
    assert "f must be causal" in str(aq.plan(design, 1, 0.1, lipschitz=1.0))
    assert "f must be" not in str(aq.plan(aq.Design(2), 1, 0.1, lipschitz=1.0))


def test_a_depth_that_fits_is_accepted() -> None:
    layers = aq.plan(aq.Design(2), 1, 0.1, lipschitz=1.0).recipes[0].shape.layers
    assert aq.plan(aq.Design(2, depth=layers), 1, 0.1, lipschitz=1.0).recipes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"design": 3}, "design=3"),
        ({"features": 0}, "features=0"),
        ({"tol": 0.0}, "tol=0.0"),
        ({"tol": -1}, "tol=-1"),
        ({"norm": "l2"}, "norm='l2'"),
        ({"p": 0.5}, "p=0.5"),
        ({"lipschitz": -1.0}, "lipschitz=-1.0"),
        ({"lipschitz": 1e308}, "at most 2^500"),
        ({"tol": 10**400}, "expected a finite number"),
        ({"bound": float("inf")}, "bound=inf"),
        ({"out_features": 0}, "out_features=0"),
        ({"budget": 0}, "budget=0"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        aq.plan(**arguments_of(arguments, design=aq.Design(2), features=1, tol=0.1, lipschitz=1.0))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("tokens", "features", "more"),
    [
        (2, 16, {"depth": 2}),
        (4, 16, {"depth": 3}),
        (1, 16, {"depth": 1}),
        (800, 1, {"position": aq.NoPosition()}),
        (20000, 1, {"position": aq.NoPosition()}),
        (4096, 1, {"depth": 3}),
        (1, 4096, {}),
    ],
    ids=str,
)
def test_a_plan_allocates_nothing(tokens: int, features: int, more: dict[str, Any]) -> None:
    """What it would be of is counted: not a tenth of what it asked for before."""
    peak = extra_bytes(
        lambda: [
            str(aq.plan(aq.Design(tokens, **more), features, 0.9, lipschitz=1.0, norm=norm))
            for norm in ("sup", "lp")
        ]
    )
    assert peak < 3e8


def test_what_no_method_could_serve_is_refused_at_once() -> None:
    for tokens, features in ((10**12, 1), (2, 10**12), (10**6, 10**6)):
        with pytest.raises(CannotApproximate, match="no method supports more than"):
            aq.plan(aq.Design(tokens), features, 0.9, lipschitz=1.0)
        with pytest.raises(CannotApproximate, match="no method supports more than"):
            aq.approximate(lambda x: x, aq.Design(tokens), features=features, tol=0.9)
