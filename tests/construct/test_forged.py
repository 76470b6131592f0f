"""Results that claim what is not so, with every hash made to fit: the second opinion says no."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import anyseq as aq
from anyseq.construct.claims.claim import Claim
from anyseq.errors import FileProblem
from anyseq.verify import verify
from anyseq.verify.boxes import boxes_error
from anyseq.verify.constants import values_fit
from anyseq.verify.multisets import all_multisets
from anyseq.verify.sizes import layers_of
from anyseq.verify.verdict import Disagreement
from construct.certified import NOWHERE, RESULTS
from construct.folders import bind, tamper
from construct.forgery import (
    as_of,
    claim_of,
    facts_about,
    failed,
    forge,
    network_with,
    with_terms,
)


def claim(name: str) -> Claim:
    return claim_of(RESULTS[name])


def forged(name: str, other: Claim | None = None, **changed: Any) -> dict[str, str]:
    return failed(forge(RESULTS[name], claim=other, **changed))


@pytest.mark.parametrize("name", RESULTS)
def test_what_was_built_holds(name: str) -> None:
    assert not forged(name)


@pytest.mark.parametrize("name", sorted(RESULTS.keys() - {"pairs"}))
def test_constants_that_are_no_numbers_bound_nothing(name: str) -> None:
    terms = {"interpolation": 1e-6, "cells": 1e-6, "kernel": 1e-6, "blending": 1e-6}
    small = with_terms(claim(name), **terms)
    for wrong in (math.nan, -1.0):
        known: dict[str, Any] = {"lipschitz": wrong, "modulus": None, "per_feature": None}
        assert forged(name, replace(small, curvature=None, **known))
        assert forged(name, replace(small, lipschitz=None, modulus=((1.0, wrong),)))


@pytest.mark.parametrize("name", ["gather", "wide", "yun", "yun, no order", "sum", "boltzmann"])
def test_values_that_change_more_than_lipschitz_says_are_found(name: str) -> None:
    """Also where it is not along an axis, nor all entries growing; of many axes; in any order."""
    held = claim(name)
    assert held.lipschitz is not None
    part = {"interpolation": 0.6, "cells": 0.6, "kernel": 0.6}
    found = forged(name, replace(with_terms(held, **part), lipschitz=0.55 * held.lipschitz))
    assert any("differ by" in why for why in found.values()), found


def test_constants_per_feature_are_those_of_the_values() -> None:
    small = with_terms(claim("gather"), interpolation=1e-3)
    assert forged("gather", replace(small, per_feature=(1e-4, 1e-4)))
    assert forged("gather", replace(small, lipschitz=None, per_feature=(1e-4, 1e-4)))
    assert forged("gather", replace(claim("gather"), per_feature=(6.0,)))
    uneven = replace(claim("per feature"), per_feature=(6.0, 0.0))
    assert "differ by" in forged("per feature", uneven)["error"]


@pytest.mark.parametrize("name", ["modulus", "yun, modulus"])
def test_a_modulus_is_that_of_the_values_at_every_distance(name: str) -> None:
    """None may be left out, and one that is less for less is not more than so many of those."""
    held = claim(name)
    assert held.modulus is not None
    small = with_terms(held, interpolation=1 / 40, cells=1e-6)
    for kept in (1 / held.steps, None):
        flat = [(h, w * (h == kept)) for h, w in held.modulus if h in (kept,) or h < 1 / held.steps]
        assert "differ by" in forged(name, replace(small, modulus=tuple(flat)))["error"]
    falls = [(h, 2 * w if h == min(held.modulus)[0] else w / 9) for h, w in held.modulus]
    assert forged(name, replace(with_terms(held, interpolation=1 / 8), modulus=tuple(falls)))


@pytest.mark.parametrize(("name", "part"), [("saddle", 0.0), ("pairs", 0.6)])
def test_values_that_bend_between_the_axes_are_found(name: str, part: float) -> None:
    held = claim(name)
    assert held.curvature is not None
    small = with_terms(held, interpolation=max(part, 1e-9))
    found = forged(name, replace(small, curvature=part * held.curvature))
    assert "bend by" in found["error"]


def test_no_term_is_there_twice() -> None:
    held = claim("gather")
    (name, on, _), *_ = held.terms
    assert forged("gather", replace(held, terms=((name, on, 0.0), *held.terms)))


DESIGNS: dict[str, dict[str, Any]] = {
    "no positions": {"position": NOWHERE},
    "turned": {"position": aq.ALiBi()},
    "no feed-forward": {"feedforward": False},
    "norm": {"final_norm": "layernorm"},
    "sinks": {"sinks": True},
    "bos": {"bos": True},
}


@pytest.mark.parametrize(
    "name", ["tokens", "wide", "yun", "sum", "partition", "boltzmann", "rounds"]
)
@pytest.mark.parametrize("other", DESIGNS)
def test_a_network_of_another_design_is_found(name: str, other: str) -> None:
    result = RESULTS[name]
    design = replace(result.design, **DESIGNS[other])
    if design != result.design:
        assert forged(name, as_of(design, claim(name)), design=design), design


def test_one_order_of_the_tokens_says_nothing_of_the_others() -> None:
    """With positions to tell them apart, f need not commute with permutations."""
    design = aq.Design(2)
    other = as_of(design, claim("sum"))
    assert other.kind == "all"
    assert "order of the tokens" in forged("sum", other, design=design)["error"]


@pytest.mark.parametrize("name", ["yun", "yun, no order"])
@pytest.mark.parametrize("added", ["constant", "positions"])
def test_nothing_else_is_added_to_the_input(name: str, added: str) -> None:
    """So little that no random input meets the ramps that it moves."""
    size = RESULTS[name].size
    more: dict[str, Any] = {added: True}
    shape = replace(size, **more)
    extra = shape.tensors().keys() - size.tensors().keys()
    weights = {key: torch.full(shape.tensors()[key], 1e-9).double() for key in extra}
    if extra:
        assert forged(name, shape=shape, weights=weights)


def test_only_one_method_may_have_a_memory() -> None:
    model, facts = RESULTS["partition"].model, facts_about(RESULTS["partition"])
    assert layers_of(facts, model)
    with pytest.raises(Disagreement, match="a memory: the network has, the design has not"):
        layers_of(replace(facts, parts="cells"), model)


def test_boxes_stay_within_the_constants_of_the_cube() -> None:
    held = claim("adaptive")
    assert held.lipschitz is not None
    assert held.curvature is not None
    for wrong in (
        replace(held, lipschitz=held.lipschitz / 2),
        replace(held, curvature=held.curvature / 2),
        replace(held, lipschitz=None),
        replace(held, curvature=None),
        replace(held, per_feature=(held.lipschitz,)),
    ):
        assert "error" in forged("adaptive", wrong)


def test_that_boxes_have_less_must_be_said(tmp_path: Path) -> None:
    result = RESULTS["adaptive"]
    result.save(tmp_path / "r")
    told = result.error.assumes[0]
    for text in (told.replace(" (less in boxes, as given)", ""),
                 told.replace(" (less in boxes, as given)", "", 1)):  # fmt: skip
        tamper(tmp_path / "r", ("error", "assumes"), [text])
        bind(tmp_path / "r")
        held = aq.load(tmp_path / "r").certificate
        assert held is not None
        assert "report" in failed(held.verify())


@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("at", [(3, 2), (1, 1)])
def test_every_node_is_within_the_constants_of_its_boxes(column: int, at: tuple[int, int]) -> None:
    """One quarter of the square is cut again, and f is 1 at a node that is on the side of another
    quarter, or inside one, and 0 elsewhere. In the quarters that were not cut it is constant."""
    small = [(x, y, 1) for x in (2, 3) for y in (2, 3)]
    boxes = np.array([(0, 0, 2), (2, 0, 2), (0, 2, 2), *small])
    nodes = {(x, y) for x in (0, 2, 4) for y in (0, 2, 4)}
    nodes |= {(x, y) for x in (2, 3, 4) for y in (2, 3, 4)} | {at}
    keys = sorted(5 * x + y for x, y in nodes)
    values = np.array([[[float(key == 5 * at[0] + at[1])]] * 2 for key in keys])
    constants = np.full((7, 2), math.inf)
    constants[:, column] = [0.0] * 3 + [1e3] * 4
    known: dict[str, Any] = {"lipschitz": None, "curvature": None}
    known |= {("lipschitz", "curvature")[column]: 1e3}
    held = replace(facts_about(RESULTS["adaptive"]), steps=4, bound=1.0, **known)
    table = {"values": values, "keys": np.array(keys), "boxes": boxes, "constants": constants}
    with pytest.raises(Disagreement, match=r"on the side of a box|not a corner of a box"):
        boxes_error(held, table, 0.0)


def test_values_of_many_axes_fit_the_constants() -> None:
    values = np.arange(2.0**9).reshape(*[2] * 9, 1) / 2**9
    held = replace(facts_about(RESULTS["gather"]), tokens=9, features=1, steps=1, lipschitz=0.5)
    with pytest.raises(Disagreement, match="differ by"):
        values_fit(held, values, 0.0)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("cells",), 0),
        (("tol",), 1e-9),
        (("step",), 0.2500001),
        (("error", "lower"), 1e3),
        (("error", "lower"), 0.0),
        (("error", "at_error"), 0.0),
        (("error", "level"), 0.99),
        (("error", "at"), [[0.5, 1.5]]),
        (("error", "at_error"), 1e9),
    ],
    ids=str,
)
def test_what_the_report_says_besides_is_found(
    place: tuple[Any, ...], value: float, tmp_path: Path
) -> None:
    RESULTS["gather"].save(tmp_path / "r")
    if place == ("step",):
        tamper(tmp_path / "r", ("cells",), 0)
    tamper(tmp_path / "r", place, value)
    bind(tmp_path / "r")
    held = aq.load(tmp_path / "r").certificate
    assert held is not None
    assert "report" in failed(held.verify())


def test_an_error_seen_in_lp_has_a_level(tmp_path: Path) -> None:
    for level in (None, 0.0, 1.0):
        RESULTS["yun"].save(folder := tmp_path / str(level))
        tamper(folder, ("error", "level"), level)
        bind(folder)
        held = aq.load(folder).certificate
        assert held is not None
        assert "report" in failed(held.verify())


def test_parameters_that_are_not_those_of_the_network_are_not_loaded(tmp_path: Path) -> None:
    RESULTS["gather"].save(tmp_path / "r")
    tamper(tmp_path / "r", ("parameters",), 3)
    with pytest.raises(FileProblem, match="3 parameters said, a network of"):
        aq.load(tmp_path / "r")


def test_a_table_of_numbers_that_are_none_is_found() -> None:
    """In a cube that no random input meets, or in any: it is not left to chance."""
    values = RESULTS["gather"].fused.tensors()["values"].clone()
    values[0] = math.nan
    assert "not a number" in forged("gather", look_up={"values": values})["table"]


def last_units(name: str, feature: int, units: list[Any]) -> dict[str, torch.Tensor]:
    """Weights with further units in the last half: (up weight on a feature, bias, down weight)."""
    tensors = RESULTS[name].model.state_dict()
    weights = {key: tensors[key].clone() for key in ("up_weight", "up_bias", "down_weight")}
    free = (weights["down_weight"][-1] == 0).all(0).nonzero().flatten().tolist()
    for unit, (up, bias, down) in zip(free[: len(units)], units, strict=True):
        weights["up_weight"][-1, unit] = 0.0
        weights["up_weight"][-1, unit, feature] = up
        weights["up_bias"][-1, unit] = bias
        weights["down_weight"][-1, 0, unit] = down
    return weights


def spike(at: float, half: float, slope: float) -> list[tuple[float, float, float]]:
    """Three units that are 1 at `at` and 0 from `half` away on."""
    down = 1 / (slope * half)
    return [(slope, -slope * (at + k * half), (1 - 3 * (k == 0)) * down) for k in (-1, 0, 1)]


def off_by(name: str, weights: dict[str, torch.Tensor], entry: float) -> float:
    x = torch.full((1, RESULTS[name].size.tokens, 1), entry).double()
    with torch.no_grad():
        other = network_with(RESULTS[name], weights)
        return float((other(x) - RESULTS[name].model(x)).abs().max())


@pytest.mark.parametrize("dead", [0.0, 2.0**60, 2.0**1023])
def test_units_that_bend_within_a_simplex_are_found_beside_a_dead_one(dead: float) -> None:
    """A spike between two nodes, and a unit of a large bias that nothing reads: that this one may
    round is no excuse for the others."""
    step = 2.0**-11
    units = spike((777 + 5 / 16) * step, step / 16, 1.0)
    weights = last_units("identity", 2, [*units, (0.0, dead, 0.0)])
    assert off_by("identity", weights, (777 + 5 / 16) * step) == 1.0
    assert {"network", "error"} & forged("identity", weights=weights).keys()


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_units_of_a_wide_layer_that_hardly_bend_are_found_by_their_weights(sign: float) -> None:
    """Units that are no more than 2^-20 below 0, or above, on the whole cube; the claim says that
    much is lost by rounding, but not as much as that."""
    at, half = 0.25 if sign > 0 else 0.75, 2.0**-13
    units = [(sign * up, sign * bias, down) for up, bias, down in spike(at, half, 2.0**-19)]
    weights = last_units("wide", 5, units)
    assert off_by("wide", weights, at) > 0.99
    more = with_terms(claim("wide"), rounding=1e11)
    assert more.upper < 0.85
    assert {"network", "error"} & forged("wide", more, weights=weights).keys()


def test_units_of_a_wide_layer_that_only_seem_off_are_found() -> None:
    """Features 0 and 5 hold the same number in token 0. So the unit is -1 there, but for what a
    product of that size rounds by; in token 1 it is off without doubt."""
    weights = last_units("wide", 5, [(1.1 * 2.0**60, -1.0, 2.0**-9)])
    unit = int(weights["up_weight"][-1, :, 5].argmax())
    weights["up_weight"][-1, unit, 0] = -1.1 * 2.0**60
    weights["up_weight"][-1, unit, 2] = -(2.0**62)
    found = forged("wide", with_terms(claim("wide"), rounding=1e11), weights=weights)
    assert {"network", "error"} & found.keys(), found


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("said", ["tokens", "features", "out_features", "steps"])
def test_sizes_that_no_tensor_has_are_found_at_once(name: str, said: str) -> None:
    for number in (10**12, 2**61, 10**4000, 0, -1, 1.5, "2", True):
        other: dict[str, Any] = {said: number}
        assert "sizes" in forged(name, replace(claim(name), **other)), number


def test_a_file_that_speaks_of_many_tokens_is_read_at_once(tmp_path: Path) -> None:
    """No tensor of this network says how many there are; its table does."""
    RESULTS["sum"].save(tmp_path / "r")
    tamper(tmp_path / "r", ("certificate", "claim", "tokens"), 10**12)
    held = aq.load(tmp_path / "r").certificate
    assert held is not None
    assert {"report", "sizes"} <= failed(held.verify()).keys()
    for place in (("design", "tokens"), ("shape", "tokens")):
        tamper(tmp_path / "r", place, 10**12)
        with pytest.raises(FileProblem, match=r"tokens|shape"):
            aq.load(tmp_path / "r")


@pytest.mark.parametrize("layer", [-1, -3])
def test_attention_after_the_value_map_is_found(layer: int) -> None:
    """On the ramps nothing but the last clip says how large outputs are."""
    result = RESULTS["yun, window"]
    tensors, size = result.model.state_dict(), result.size
    shape = replace(size, attention_layers=size.attention_layers + 1)
    names = [key for key in shape.tensors() if key[:2] in ("q_", "k_", "v_", "o_")]
    weights = {key: torch.cat([tensors[key], 0 * tensors[key][:1]]) for key in names}
    halves = tensors["halves"].clone()
    halves[layer, 0] = size.attention_layers
    assert not forged("yun, window")
    found = forged("yun, window", shape=shape, weights=weights | {"halves": halves})
    assert "attention after they begin" in found["network"]


@pytest.mark.parametrize("name", RESULTS)
def test_no_term_may_be_less_by_a_hundredth(name: str) -> None:
    """What is derived again is not only a bound for what is claimed, but nearly the same number.
    (Rounding is found by other arguments; of ridges the amplitudes that there are are summed.)"""
    terms = {term for term, _, value in claim(name).terms if value} - {"rounding", "ridges"}
    for term in terms:
        found = forged(name, with_terms(claim(name), **{term: 0.99}))
        assert f"{term}:" in found.get("error", ""), (term, found)


@pytest.mark.parametrize("name", ["yun", "yun, window", "yun, no order"])
@pytest.mark.parametrize("end", [1.0 + 2.0**-20, 2.0, 1e9])
def test_an_end_beyond_the_cube_does_not_make_up_for_ramps(name: str, end: float) -> None:
    """A claim of no ramps, and a look-up that says so by an end as far out as they are wide."""
    held, known = claim(name), RESULTS[name].fused.facts()
    ramps = known["ramp"] * known["steps"]
    for further in (end, 1 + ramps):
        none = replace(with_terms(held, ramps=1e-12), exceptional=0.0)
        assert forged(name, none, look_up={"end": further})
        facts = replace(facts_about(RESULTS[name]), terms=none.terms, upper=none.upper)
        assert facts.ramps is not None
        facts = replace(facts, exceptional=0.0, ramps=replace(facts.ramps, measure=0.0))
        model, fused = RESULTS[name].model, RESULTS[name].fused
        found = verify(facts, network=model, table=fused.tensors(), look_up=fused)
        assert "wider than their measure says" in failed(found)["network"]


def test_a_table_of_one_order_is_for_tokens_that_are_alike() -> None:
    for name, rows in (("yun", "sets"), ("rounds", "multisets")):
        result = RESULTS[name]
        values = result.fused.tensors()["values"]
        facts = replace(facts_about(result), rows=rows, kind="equivariant")
        several = all_multisets(facts.cells, facts.tokens)
        distinct = several if rows == "multisets" else several[several[:, 0] < several[:, 1]]
        table = {**result.fused.tensors(), "values": values[: len(distinct)]}
        found = verify(facts, network=result.model, table=table, look_up=result.fused)
        assert "tokens are not alike" in failed(found)["network"]


def test_a_set_of_cells_has_the_number_that_finds_it() -> None:
    """So few inputs are in its cells that random ones hardly tell."""
    for name in ("yun, no order", "yun, no order, hardmax"):
        keys = RESULTS[name].fused.tensors()["keys"].clone()
        keys[91] += 1
        assert "keys of the table" in forged(name, look_up={"keys": keys})["network"]
