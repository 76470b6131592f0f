"""The second opinion on method "boltzmann": what was built holds, and planted errors are found even
if every hash fits."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import anyseq as aq
from anyseq.construct import Approximation
from anyseq.nn import Stack
from anyseq.patterns import Ring
from construct.forgery import claim_of, failed, forge, network_with, with_terms, wrong_number
from construct.inputs import random


def moving_mean(x: torch.Tensor) -> torch.Tensor:
    """Causal, and not the same for any two positions; Lipschitz with 1."""
    places = torch.arange(1, x.shape[1] + 1, dtype=x.dtype)[:, None]
    return x.cumsum(1) / (1 + places) + places / (4 * x.shape[1])


def sort(x: torch.Tensor) -> torch.Tensor:
    """Lipschitz with 1."""
    return x.sort(1).values


def plus_mean(x: torch.Tensor) -> torch.Tensor:
    """Commutes with permutations; Lipschitz with 1."""
    return (x + x.mean(1, keepdim=True)) / 2


Case = tuple[Callable[[torch.Tensor], torch.Tensor], aq.Design, int, float]
ONE_HEAD: dict[str, Case] = {
    "positions": (sort, aq.Design(2), 1, 0.2),
    "three tokens": (sort, aq.Design(3), 1, 0.3),
    "two features": (plus_mean, aq.Design(2), 2, 0.5),
    "no positions": (plus_mean, aq.Design(3, position=aq.NoPosition()), 1, 0.5),
}
BOS: dict[str, Case] = {
    "positions, BOS": (sort, aq.Design(2, bos=True), 1, 0.3),
    "no positions, BOS": (plus_mean, aq.Design(2, position=aq.NoPosition(), bos=True), 1, 0.5),
}
ROUNDS: dict[str, Case] = BOS | {
    "biases": (sort, aq.Design(2, position=aq.RelativeBias()), 1, 0.8),
    "window, BOS": (sort, aq.Design(3, aq.Window(1), aq.NoPosition(), bos=True), 1, 0.9),
    "sparsemax": (plus_mean, aq.Design(2, position=aq.NoPosition(), prob_map="sparsemax"), 1, 0.5),
    "causal": (moving_mean, aq.Design(3, aq.Causal(), aq.NoPosition()), 1, 1.5),
    "one round of two": (moving_mean, aq.Design(3, aq.Causal(), aq.NoPosition()), 1, 2.5),
    "gains, sinks": (sort, aq.Design(2, position=aq.URPE(), sinks=True), 1, 0.6),
    "in turns": (sort, aq.Design(3, (Ring(1), aq.Causal()), aq.Rotary()), 1, 1.5),
    "deep": (sort, aq.Design(2, aq.Window(1), bos=True, depth=80), 1, 0.3),
}
CASES = ONE_HEAD | ROUNDS


def build(name: str) -> Approximation:
    f, design, features, tol = CASES[name]
    return aq.approximate(
        f, design, features=features, tol=tol, norm="lp", method="boltzmann", lipschitz=1.0
    )


RESULTS = {name: build(name) for name in CASES}
LOST = [name for name, result in RESULTS.items() if len(claim_of(result).terms) == 3]


@pytest.mark.parametrize("name", CASES)
def test_what_was_built_holds(name: str) -> None:
    held = RESULTS[name].certificate
    assert held is not None
    verification = held.verify()
    assert verification, verification
    checks = {check.name: check for check in verification.checks}
    wanted = "report weights table facts sizes layers network look-up error measure balls"
    assert list(checks) == wanted.split()
    assert [n for n, check in checks.items() if "SAMPLED" in check.why] == ["look-up"]
    assert checks["balls"].passed is (True if name in ONE_HEAD or name in BOS else None)
    assert all(check.passed for check in verification.checks[:-1])


def test_some_designs_lose_pairs() -> None:
    assert {"biases", "causal", "one round of two", "in turns"} == set(LOST)


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(sorted(CASES)), st.data())
def test_one_wrong_number_that_matters_is_found(name: str, data: st.DataObject) -> None:
    """Any entry of any tensor: if the network computes another function, reading it says so."""
    result = RESULTS[name]
    weights = wrong_number(result, data)
    x = random(result, 500)
    with torch.no_grad():
        same = torch.equal(network_with(result, weights)(x), result.model(x))
    if not same:
        found = failed(forge(result, weights=weights))
        assert found.keys() & {"network", "error"}, weights.keys()


def first_attention(result: Approximation) -> tuple[int, int]:
    """The feed-forward rows of the first and of the last layer with attention."""
    halves = result.model.state_dict()["halves"]
    rows = halves[halves[:, 0] >= 0, 1].tolist()
    return rows[0], rows[-1]


def changed(result: Approximation, tensor: str, place: tuple[int, ...], by: float) -> torch.Tensor:
    wrong: torch.Tensor = result.model.state_dict()[tensor].clone()
    wrong[place] += by
    return wrong


@pytest.mark.parametrize("name", CASES)
def test_another_numbering_is_found(name: str) -> None:
    """A border of a cell moved, a step that is higher, ramps of twice the width."""
    result = RESULTS[name]
    for wrong in (
        {"up_bias": changed(result, "up_bias", (0, 0), 2.0**-40)},
        {"down_weight": changed(result, "down_weight", (1, result.size.out_features, 0), 1.0)},
    ):
        assert "network" in failed(forge(result, weights=wrong))
    first, _ = first_attention(result)
    wider = result.model.state_dict()["down_weight"].clone()
    wider[:first:2] /= 2
    found = failed(forge(result, weights={"down_weight": wider}))
    assert "on a ramp" in found["network"]


@pytest.mark.parametrize("name", CASES)
def test_attention_that_sees_inputs_is_found(name: str) -> None:
    """So little of them that nothing shows."""
    result = RESULTS[name]
    wrong = {"k_weight": changed(result, "k_weight", (0, 0, 0), 1e-300)}
    found = failed(forge(result, weights=wrong))
    assert found == {"network": "attention reads a number that moves"}


@pytest.mark.parametrize("name", CASES)
def test_shifted_windows_are_found(name: str) -> None:
    """Those of the last round: all moved by their width, two of different values exchanged, one
    widened over the others, all moved too far for rounding to be safe."""
    result = RESULTS[name]
    bias, down = (result.model.state_dict()[tensor] for tensor in ("up_bias", "down_weight"))
    _, last = first_attention(result)
    values = down[last + 2 :: 2, 0, 0]
    other = last + 1 + 2 * int((values != values[0]).nonzero()[0])
    rows = slice(last + 1, len(bias), 2)
    width = float(-bias[last + 1, 1] - bias[last + 1, 0])
    sign = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(bias.shape[1])[: bias.shape[1]]
    used = (bias[rows] != 0).double() * sign
    moved, exchanged, widened, near = (bias.clone() for _ in range(4))
    moved[rows] += width * used
    exchanged[last + 1, :2], exchanged[other, :2] = bias[other, :2], bias[last + 1, :2]
    widened[last + 1, 1] = -1e9
    near[rows] += 0.45 * width * used
    for wrong in (moved, exchanged, widened, near):
        assert "network" in failed(forge(result, weights={"up_bias": wrong}))


@pytest.mark.parametrize("name", CASES)
def test_other_values_are_found(name: str) -> None:
    """In the network alone, in the table alone, and in both if |f| is said to be less."""
    result = RESULTS[name]
    values = result.fused.tensors()["values"]
    assert "network" in failed(forge(result, look_up={"values": values + 1e-12}))
    down = result.model.state_dict()["down_weight"].clone()
    _, last = first_attention(result)
    outputs = result.size.out_features
    down[last + 2 :: 2, :outputs] *= 3
    found = failed(forge(result, weights={"down_weight": down}))
    assert "off the table by" in found["network"]
    found = failed(forge(result, weights={"down_weight": down}, look_up={"values": 3 * values}))
    assert found["error"].startswith("the table holds")


@pytest.mark.parametrize("name", CASES)
def test_wrong_claims_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flint", None)  # balls say nothing of claims
    result = RESULTS[name]
    claim = claim_of(result)
    assert claim.lipschitz is not None
    flat = tuple((shell / (128 * claim.steps), 0.0) for shell in range(1, 129))
    wrong = {
        "upper": replace(claim, upper=claim.upper * 0.99),
        "cells": with_terms(claim, cells=0.99),
        "ramps": with_terms(claim, ramps=0.999),
        "no ramps": with_terms(claim, ramps=0.0),
        "bound": replace(claim, bound=claim.bound / 2),
        "larger L": replace(claim, lipschitz=claim.lipschitz * 1.01),
        "smaller L": with_terms(replace(claim, lipschitz=claim.lipschitz / 16), cells=1 / 16),
        "no L": replace(claim, lipschitz=None),
        "finer": with_terms(replace(claim, steps=2 * claim.steps), cells=0.5),
        "tokens": replace(claim, tokens=claim.tokens + 1),
        "positions": replace(claim, positions=not claim.positions),
        "dense": replace(claim, dense=not claim.dense),
        "p": with_terms(replace(claim, p=claim.p + 1)),
        "sup norm": with_terms(replace(claim, norm="sup"), ramps=1e-9),
        "mean of squares": with_terms(replace(claim, norm="mean")),
        "a modulus too": with_terms(replace(claim, modulus=flat), cells=1e-9),
        "more exceptions": replace(claim, exceptional=claim.exceptional * 1.001),
        "fewer exceptions": replace(claim, exceptional=claim.exceptional * 0.999),
        "no exceptions": replace(claim, exceptional=0.0),
        "all exceptions": replace(claim, exceptional=1.0),
    }
    passing = {what for what, other in wrong.items() if forge(result, claim=other)}
    assert passing == set()


@pytest.mark.parametrize("name", LOST)
def test_lost_pairs_that_are_not_told_are_found(name: str) -> None:
    result = RESULTS[name]
    claim = claim_of(result)
    for other in (with_terms(claim, alike=0.999), with_terms(claim, alike=0.0)):
        assert failed(forge(result, claim=other)).keys() == {"error"}
    for kind in {"all", "causal", "equivariant"} - {claim.kind}:
        assert "report" in failed(forge(result, claim=replace(claim, kind=kind)))


@pytest.mark.parametrize("name", ["biases", "window, BOS", "causal", "gains, sinks"])
def test_two_windows_made_one_lose_more_pairs(name: str) -> None:
    """The table says what the network computes then; but that is f at fewer pairs than claimed."""
    result = RESULTS[name]
    bias = result.model.state_dict()["up_bias"].clone()
    _, last = first_attention(result)
    chunk = result.size.hidden // 2
    one, two = ((last + 1 + 2 * (k // chunk), 2 * (k % chunk)) for k in (1, 2))
    assert -bias[one[0], one[1] + 1] < bias[two]
    bias[one[0], one[1] + 1] = bias[two[0], two[1] + 1]
    bias[two[0], two[1]], bias[two[0], two[1] + 1] = -1e9, 1e9
    steps, tokens = round(1 / result.facts.step), result.size.tokens
    axis = (torch.arange(steps, dtype=torch.float64) + 0.5) / steps
    weights = result.model.state_dict() | {"up_bias": bias}
    with torch.no_grad():
        centres = torch.cartesian_prod(*[axis] * tokens)[:, :, None]
        table = Stack(result.design, result.size, weights)(centres)
    forged = forge(result, weights={"up_bias": bias}, look_up={"values": table})
    assert {"error"} <= failed(forged).keys() <= {"error", "measure"}


def test_features_in_another_order_are_read() -> None:
    """The same function, by other weights: number and key change places."""
    result = RESULTS["positions"]
    order = list(range(result.size.width))
    order[1], order[2] = 2, 1
    weights = result.model.state_dict()
    last = {name: weights[name][..., order] for name in ("q_weight", "k_weight", "v_weight")}
    last |= {name: weights[name][..., order] for name in ("up_weight", "down_bias", "position")}
    swapped = last | {name: weights[name][:, order] for name in ("o_weight", "down_weight")}
    x = random(result, 50)
    with torch.no_grad():
        same = Stack(result.design, result.size, weights | swapped)(x)
    assert torch.equal(same, result.model(x))
    assert not failed(forge(result, weights=swapped))


def test_a_constant_that_the_values_contradict_is_found() -> None:
    """With the terms that it would give, and whatever the table is by."""
    for name in ("positions", "two features", "no positions", "no positions, BOS", "causal"):
        claim = claim_of(RESULTS[name])
        assert claim.lipschitz is not None
        other = with_terms(replace(claim, lipschitz=claim.lipschitz / 16), cells=1 / 16)
        found = failed(forge(RESULTS[name], claim=other))
        assert found["error"].startswith("values at neighbouring")


@pytest.mark.parametrize("name", CASES)
def test_a_look_up_of_narrower_ramps_is_found(name: str) -> None:
    found = failed(forge(RESULTS[name], look_up={"ramp": 2.0**-60}))
    assert found


def test_tokens_that_are_confused_are_counted_at_all_sequences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sample of them says nothing."""
    monkeypatch.setattr("anyseq.verify.cells._WORK", 0.0)
    monkeypatch.setattr("anyseq.verify.cells._LEAST", 3)
    held = RESULTS["three tokens"].certificate
    assert held is not None
    assert "too many sequences" in failed(held.verify())["network"]


def test_a_bound_is_compared_with_the_whole_table() -> None:
    for name in ("three tokens", "no positions", "causal"):
        claim = claim_of(RESULTS[name])
        found = failed(forge(RESULTS[name], claim=replace(claim, bound=claim.bound / 2)))
        assert found["error"].startswith("the table holds")
