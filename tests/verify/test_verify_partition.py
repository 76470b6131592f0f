"""The second opinion on method "partition": what was built holds, planted errors do not."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import anyseq as aq
from anyseq.construct import Approximation
from anyseq.construct.claims.facts import facts_of
from anyseq.construct.network.memory import MemoryShape, MemoryStack
from anyseq.construct.request.functions import FUNCTIONS
from anyseq.verify.balls import random_inputs
from anyseq.verify.memory import Blend, memory_network
from anyseq.verify.terms import spread
from anyseq.verify.verdict import Disagreement
from construct.folders import unnoticed
from construct.forgery import (
    claim_of,
    facts_about,
    failed,
    is_felt,
    look_again,
    texts,
    wrong_claims,
    wrong_number,
)
from construct.inputs import random


def build(name: str, tokens: int, features: int, tol: float, norm: str = "sup") -> Approximation:
    example = FUNCTIONS[name]
    return aq.approximate(
        example,
        aq.Design(tokens),
        features=features,
        tol=tol,
        norm=norm,
        method="partition",
        lipschitz=example.lipschitz(tokens, features),
    )


RESULTS = {
    "1 token": build("plus-mean", 1, 1, 0.1),
    "2 tokens": build("waves", 2, 1, 0.5),
    "3 tokens": build("sort", 3, 1, 0.2),
    "2 features": build("attention", 2, 2, 0.4),
    "lp": build("plus-mean", 2, 1, 0.9, "lp"),
}


@pytest.mark.parametrize("name", RESULTS)
def test_what_was_built_holds(name: str) -> None:
    held = RESULTS[name].certificate
    assert held is not None
    verification = held.verify()
    assert verification, verification
    assert all(check.passed for check in verification.checks)
    found = texts(verification)
    assert "read from the weights" in found["network"]
    assert "derived again" in found["error"]
    assert {check for check, why in found.items() if "SAMPLED" in why} == {"look-up"}


@pytest.mark.parametrize("name", RESULTS)
def test_float64_stays_within_the_rounding_derived_and_the_mean_within_the_blending(
    name: str,
) -> None:
    """The blocks against balls; and f = the distance from x, which has L = 1, against T."""
    result = RESULTS[name]
    assert result.certificate is not None
    claim, model = result.certificate.claim, result.model
    assert claim.lipschitz is not None
    tensors = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    table = {name: tensor.numpy() for name, tensor in result.fused.tensors().items()}
    read = memory_network(facts_about(result), model, tensors, table)
    terms, blend = read.error(), read.mean
    assert isinstance(blend, Blend)
    blending = terms["blending", "cells"] / spread(facts_about(result))
    x = random_inputs((20, claim.tokens, claim.features), blend)
    near = random_inputs((20, claim.tokens, claim.features), None) / blend.sharpness / claim.steps
    x[1::2] = (x[1::2] + near[1::2]) % 1.0  # where the second nearest counts most
    with torch.no_grad():
        found = model(torch.from_numpy(x)).numpy()
    axes = claim.tokens * claim.features
    centres = (np.indices((claim.steps,) * axes).reshape(axes, -1).T + 0.5) / claim.steps
    for entries, outputs in zip(x, found, strict=True):
        exact = blend.exact(entries)
        off = [abs(a - b) for row, o in zip(exact, outputs.tolist(), strict=True)
               for a, b in zip(row, o, strict=True)]  # fmt: skip
        assert all(gap <= read.off for gap in off)
        distance = np.abs(centres - entries.reshape(-1)).max(1)[:, None, None]
        (away,) = replace(blend, values=distance).exact(entries)
        assert away[0] <= blending / claim.lipschitz


def change(name: str, tensor: str, place: tuple[int, ...], by: float) -> dict[str, torch.Tensor]:
    wrong = RESULTS[name].model.state_dict()[tensor].clone()
    wrong[place] += by
    return {tensor: wrong}


SLOTS_AT = RESULTS["3 tokens"].size.width - 6  # | slots (3) | values (3)


@pytest.mark.parametrize(
    ("tensor", "place", "by", "why"),
    [
        ("position", (1, 1), 1.0, "no token leads by enough"),
        ("q_bias", (0, 1), -500.0, "no token leads by enough"),
        ("q_weight", (0, 1, 0), 1.0, "its scores depend on the input"),
        ("k_weight", (0, 0, 2), 1.0, "no token leads by enough"),
        ("v_weight", (0, 2, 0), 1.0, "router"),
        ("v_weight", (0, 2, 0), 0.25, "router"),
        ("o_weight", (0, SLOTS_AT, 0), -1.0, "does not hold the whole sequence"),
        ("o_weight", (0, SLOTS_AT, 1), 1.0, "router"),
        ("down_weight", (0, 0, 0), 1.0, "router"),
        ("up_bias", (0, 0), 1.0, "router"),
        ("memory_key", (5, 0), 2.0**-20, "a key is not that of its centre"),
        ("memory_key", (63, 3), 1.0, "a key is not that of its centre"),
        ("memory_key", (0, 0), 1.0, "not a power of two"),
        ("memory_value", (7, 2), 1e-15, "a value is not the table's"),
        ("up_weight", (1, 0, 1), -1.0, "selector"),
        ("up_weight", (1, 0, SLOTS_AT), 1e-9, "selector: it reads x"),
        ("up_weight", (1, 0, 0), 1e100, "rounding:"),
        ("up_weight", (1, 2, SLOTS_AT + 3), 1.0, "selector"),
        ("up_bias", (1, 1), 0.5, "selector"),
        ("down_weight", (1, 0, 1), 1e-12, "selector: token 1 does not take its own output"),
        ("down_bias", (1, 0), 1e-12, "selector: its constants do not cancel"),
    ],
)
def test_wrong_weights_are_found(tensor: str, place: tuple[int, ...], by: float, why: str) -> None:
    verification = look_again(RESULTS["3 tokens"], weights=change("3 tokens", tensor, place, by))
    (found,) = failed(verification).values()
    assert why in found


def test_numbers_that_cancel_only_in_exact_arithmetic_are_found() -> None:
    """A slot that is (x_0 + x_1) - x_0 is right at the corners of the cube, and rounds inside."""
    result = RESULTS["2 features"]
    value, out = (result.model.state_dict()[n].clone() for n in ("v_weight", "o_weight"))
    slot = result.size.width - 4 - 4
    value[0, 1, 0] += 1.0  # the second value of head 0 is x_0 + x_1
    out[0, slot + 1, 0] -= 1.0
    x = random(result, 50)
    assert not is_felt(result, {"v_weight": value, "o_weight": out}, x)
    verification = look_again(result, weights={"v_weight": value, "o_weight": out})
    assert "router: a token does not hold" in texts(verification)["network"]


def test_exchanged_centres_are_found() -> None:
    result = RESULTS["2 tokens"]
    for tensor in ("memory_key", "memory_value"):
        wrong = result.model.state_dict()[tensor].clone()
        wrong[[3, 4]] = wrong[[4, 3]]
        assert failed(look_again(result, weights={tensor: wrong})).keys() == {"network"}


def test_a_flatter_memory_is_not_what_is_claimed() -> None:
    """All keys halved: the same centres, another width."""
    result = RESULTS["3 tokens"]
    flat = result.model.state_dict()["memory_key"] / 2
    verification = look_again(result, weights={"memory_key": flat})
    assert failed(verification).keys() == {"error"}
    assert "blending" in texts(verification)["error"]


def test_a_memory_that_looks_elsewhere_is_found() -> None:
    result = RESULTS["2 tokens"]
    shape = result.size
    assert isinstance(shape, MemoryShape)
    assert result.certificate is not None
    tensors = result.model.state_dict()
    moved = MemoryStack(result.design, replace(shape, slots_at=shape.slots_at - 1), tensors)
    numbers = {name: tensor.numpy() for name, tensor in tensors.items()}
    table = {name: tensor.numpy() for name, tensor in result.fused.tensors().items()}
    facts = facts_of(result.certificate.claim, moved, result.fused)
    with pytest.raises(Disagreement, match="does not hold the whole sequence"):
        memory_network(facts, moved, numbers, table)


@pytest.mark.parametrize("name", RESULTS)
def test_wrong_claims_are_found(name: str) -> None:
    result = RESULTS[name]
    for other in wrong_claims(claim_of(result), "sum"):
        assert not look_again(result, claim=other), other


@pytest.mark.parametrize("name", ["2 tokens", "2 features"])
def test_a_constant_that_the_values_contradict_is_found(name: str) -> None:
    """Everything that follows from it made to fit."""
    result = RESULTS[name]
    assert result.certificate is not None
    claim = result.certificate.claim
    assert claim.lipschitz is not None
    less = tuple((what, on, value / 4) for what, on, value in claim.terms)
    other = replace(claim, lipschitz=claim.lipschitz / 4, terms=less, upper=claim.upper / 4)
    assert "values at neighbouring nodes differ" in texts(look_again(result, claim=other))["error"]


def test_edited_files_are_found_even_with_their_hash(tmp_path: Path) -> None:
    edits: list[tuple[tuple[str, ...], object]] = [
        (("fused", "sharpness"), 32.0),
        (("certificate", "claim", "lipschitz"), 0.5),
        (("certificate", "claim", "steps"), 8),
        (("error", "upper"), 0.01),
    ]
    assert not unnoticed(RESULTS["3 tokens"], edits, tmp_path)


@settings(max_examples=60)
@given(st.sampled_from(sorted(RESULTS)), st.data())
def test_one_wrong_number_that_matters_is_found(name: str, data: st.DataObject) -> None:
    result = RESULTS[name]
    weights = wrong_number(result, data)
    x = random(result, 300)
    x[:100] = (x[:100] * 8).round() / 8
    if is_felt(result, weights, x):
        assert not look_again(result, weights=weights), weights.keys()
