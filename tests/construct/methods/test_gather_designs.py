"""Method "gather" serves every design that gathers."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch
from hypothesis import assume, given, settings

import anyseq as aq
from anyseq.construct import Approximation
from anyseq.errors import CannotApproximate, WeightsChanged
from anyseq.positions import base_of
from construct.gathering.designs import designs, gathers
from construct.inputs import corners, random
from verdicts.gallery import rows


def reverse(x: torch.Tensor) -> torch.Tensor:
    return x.flip(1)


def running_max(x: torch.Tensor) -> torch.Tensor:
    return x.cummax(1).values


def build(design: aq.Design, wanted: str, tol: float = 0.7, **options: object) -> Approximation:
    f = reverse if wanted == "all" else running_max
    return aq.approximate(
        f,
        design,
        features=1,
        tol=tol,
        lipschitz=1.0,
        method="gather",
        **options,  # type: ignore[arg-type]
    )


def check_built(result: Approximation, wanted: str) -> None:
    """What was planned is built, look-up and blocks agree, and the error is within its bound."""
    f = reverse if wanted == "all" else running_max
    assert result.model.shape == result.size
    x = torch.cat([random(result, 20), corners(result, 10)])
    with torch.no_grad():
        y = result.model(x)
    assert float((y - result(x)).abs().max()) <= 1e-9
    assert result.error.upper is not None
    assert float((y - f(x)).abs().max()) <= result.error.upper <= result.facts.tol
    causal = any("f is causal" in text for text in result.error.assumes)
    assert causal == (wanted == "causal")


@given(designs(most=3))
@settings(max_examples=15, deadline=None)
def test_every_design_that_gathers_is_served(design: aq.Design) -> None:
    wanted = gathers(design)
    assume(wanted is not None)
    check_built(build(design, wanted or ""), wanted or "")


@pytest.mark.parametrize("line", [line for line, _, _ in rows()])
def test_the_gallery_is_served(line: str) -> None:
    """With four tokens, every design that gathers; biases over an array, norms within blocks, a
    head, ids and readouts are refused by name."""
    design = next(design for text, design, _ in rows() if text == line)
    if isinstance(base_of(design.position), aq.GridBias):
        with pytest.raises(CannotApproximate, match=r"position=GridBias.*offsets of an array"):
            build(design, "causal")
        return
    around = (design.block_norm, design.head, design.domain, design.readout)
    if around != (None, False, "cube", "all") and design.layers is None:
        with pytest.raises(CannotApproximate, match=r"constructions are for designs|takes points"):
            build(design, "causal")
        return
    design = replace(design, tokens=min(design.tokens, 4))
    wanted = gathers(design)
    if design.layers is not None:
        with pytest.raises(CannotApproximate, match="layers that differ only in their patterns"):
            build(design, "causal")
    elif wanted is None:
        with pytest.raises(CannotApproximate):
            build(design, "causal")
    else:
        check_built(build(design, wanted), wanted)


def test_a_deeper_design_is_filled_up() -> None:
    layers = build(aq.Design(2), "all").size.layers
    result = build(aq.Design(2, depth=layers + 90), "all")
    assert (len(result.model), result.size.layers) == (layers + 90, layers + 90)
    assert result.size.parameters == build(aq.Design(2), "all").size.parameters
    check_built(result, "all")


def test_causal_functions_only() -> None:
    design = aq.Design(3, aq.Causal(), aq.NoPosition(), bos=True)
    with pytest.raises(CannotApproximate, match="no token is reached by all later ones") as caught:
        build(design, "all")
    assert "other tokens after token" in str(caught.value)
    # whatever f makes of later tokens by rounding does not get in
    result = aq.approximate(
        lambda x: running_max(x) + 1e-10 * x.sum(1, keepdim=True),
        design,
        features=1,
        tol=0.3,
        lipschitz=1.01,
    )
    x = random(result, 8)
    y = x.clone()
    y[:, 2] = 0.5
    with torch.no_grad():
        assert float((result(x) - result(y))[:, :2].abs().max()) <= 1e-14
        assert float((result.model(x) - result(x)).abs().max()) <= 1e-9


def test_other_features_and_outputs() -> None:
    design = aq.Design(2, aq.Window(1), aq.URPE(), bos=True)
    result = aq.approximate(
        lambda x: torch.cat([x.flip(1), x.sum(2, keepdim=True)], dim=2) / 2,
        design,
        features=2,
        tol=0.7,
        lipschitz=1.0,
    )
    assert result.size.out_features == 3
    x = random(result, 20)
    with torch.no_grad():
        assert float((result.model(x) - result(x)).abs().max()) <= 1e-9


SIGHT = torch.tensor([[1, 1, 0], [0, 1, 1], [1, 1, 1]]).bool()
"""Everybody sees itself and a neighbour; the last token sees one more."""
BIASES = (aq.NoPosition(), aq.ALiBi(), aq.T5Bias(4, 3))
MAPS = ("softmax", "sparsemax", "entmax15", "hardmax", "topk(2)")
BLIND = {(aq.ALiBi(), "hardmax"), (aq.ALiBi(), "topk(2)")}
"""Here a token looks at itself, and with topk(2) at its neighbour, whoever else it sees."""


@pytest.mark.parametrize(
    ("position", "prob_map"), [case for case in product(BIASES, MAPS) if case not in BLIND], ids=str
)
def test_a_sink_shows_places_by_every_map(position: aq.Position, prob_map: str) -> None:
    """Without it identical tokens stay identical; beside it, as many keys as there are count.
    Hardmax and topk count keys that tie with it, or with one another."""
    assert aq.check(aq.Design(3, SIGHT, position, prob_map)).universal is False
    design = aq.Design(3, SIGHT, position, prob_map, sinks=True)
    assert aq.check(design).universal is True
    result = aq.approximate(reverse, design, features=1, tol=0.5, lipschitz=1.0, method="gather")
    x = random(result, 64)
    assert result.error.upper is not None
    assert (result.model(x) - reverse(x)).abs().max() <= result.error.upper
    assert result.certificate is not None
    assert result.certificate.verify()


@pytest.mark.parametrize(("position", "prob_map"), sorted(BLIND, key=str), ids=str)
def test_a_sink_shows_no_places_where_distances_decide(
    position: aq.Position, prob_map: str
) -> None:
    design = aq.Design(3, SIGHT, position, prob_map, sinks=True)
    assert aq.check(design).universal is False
    with pytest.raises(CannotApproximate, match="identical tokens stay identical"):
        aq.approximate(reverse, design, features=1, tol=0.5, lipschitz=1.0, method="gather")


@pytest.mark.parametrize(
    ("design", "reason"),
    [
        (aq.Design(2, position=aq.Rotary()), "identical tokens stay identical at all 2 positions"),
        (aq.Design(4, aq.Blocks(2)), "token 2 never reaches token 0"),
        (aq.Design(2, feedforward=False), "needs feed-forward layers"),
        (aq.Design(2, final_norm="rmsnorm"), "designs with final_norm=None"),
    ],
    ids=str,
)
def test_refusals(design: aq.Design, reason: str) -> None:
    plan = aq.plan(design, 1, 0.7, lipschitz=1.0)
    assert reason in plan.refused["gather"]


def test_waves_that_only_x_could_show_are_refused() -> None:
    """The first two features wave quickly, but hold x; the others hardly wave at all."""
    plan = aq.plan(aq.Design(2, position=aq.Sinusoidal(1e300)), 2, 0.7, lipschitz=1.0)
    assert "do not tell 2 positions apart by more than rounding" in plan.refused["gather"]


def test_a_wrong_route_is_felt() -> None:
    """Taking slots from the wrong token changes what the network computes."""
    result = build(aq.Design(3, aq.Window(1), aq.Rotary(), bos=True), "all", tol=0.4)
    x = random(result, 50)
    with torch.no_grad():
        right = result.model(x)
        result.model.get_parameter("q_weight").data[-1] *= -1
        assert float((result.model(x) - right).abs().max()) > 0.01
    with pytest.raises(WeightsChanged):
        result(x)
