"""The table of what must work, with the sizes that are expected: lost efficiency is caught here.

Every row is built at its grid step, compared with the plan, run through its blocks on random
inputs, cell corners and ramps, and compared with what the theory says T is.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch

import anyseq as aq
from anyseq.construct import Approximation
from anyseq.construct.request.functions import FUNCTIONS, cosine
from construct.inputs import corners, ramps, random

EXAMPLES = FUNCTIONS | {"cosine-2": cosine(2)}


class Row(NamedTuple):
    function: str
    tokens: int
    features: int
    method: str
    positions: bool
    steps: int
    layers: int
    parameters: int


A, N = True, False  # absolute positions, none

TABLE = [
    Row("sort", 3, 1, "yun", A, 8, 1588, 20585),
    Row("sort", 4, 1, "yun", A, 8, 16452, 213794),
    Row("reverse", 3, 1, "yun", A, 16, 12388, 160913),
    Row("running-max", 4, 1, "yun", A, 16, 262276, 3409410),
    Row("prefix-mean", 2, 1, "yun", A, 64, 8452, 109504),
    Row("times-max", 2, 2, "yun", A, 8, 8356, 183342),
    Row("cosine", 2, 1, "yun", A, 64, 8452, 109504),
    Row("cosine-2", 3, 1, "yun", A, 16, 12388, 160913),
    Row("attention", 2, 2, "yun", A, 16, 131652, 2894318),
    Row("plus-mean", 4, 1, "yun", A, 8, 16452, 213794),
    Row("plus-mean", 2, 1, "yun", N, 64, 4169, 54015),
    Row("plus-mean", 4, 1, "yun", N, 16, 7321, 95135),
    Row("times-max", 3, 1, "yun", N, 16, 1721, 22335),
    Row("attention", 2, 2, "yun", N, 8, 4122, 90446),
    Row("cosine", 3, 1, "yun", N, 8, 193, 2495),
    Row("sort", 3, 1, "gather", A, 16, 291, 101490),
    Row("sort", 4, 1, "gather", A, 8, 731, 227014),
    Row("reverse", 4, 1, "gather", A, 16, 4915, 2428414),
    Row("running-max", 3, 1, "gather", A, 16, 291, 101490),
    Row("prefix-mean", 2, 1, "gather", A, 64, 67, 49808),
    Row("times-max", 4, 1, "gather", A, 8, 731, 227014),
    Row("cosine", 2, 1, "gather", A, 64, 67, 49808),
    Row("cosine-2", 3, 1, "gather", A, 16, 291, 101490),
    Row("attention", 2, 2, "gather", A, 8, 731, 246567),
    Row("plus-mean", 3, 1, "gather", A, 16, 291, 101490),
]


def build(row: Row) -> Approximation:
    """The approximation whose tolerance is what the row's grid step just meets."""
    example = EXAMPLES[row.function]
    lipschitz = example.lipschitz(row.tokens, row.features)
    norm = "lp" if row.method == "yun" else "sup"
    design = aq.Design(row.tokens, position=aq.Absolute() if row.positions else aq.NoPosition())
    # halve the tolerance from far above until the step is reached
    tol = 4.0 * lipschitz
    while True:
        result = aq.approximate(
            example,
            design,
            features=row.features,
            tol=tol,
            norm=norm,
            method=row.method,
            lipschitz=lipschitz,
        )
        if result.facts.step <= 1 / row.steps:
            return result
        assert result.error.upper is not None
        tol = min(tol, result.error.upper) * 0.999


@pytest.mark.parametrize("row", TABLE, ids=lambda row: "-".join(map(str, row[:6])))
def test_row(row: Row) -> None:
    result = build(row)
    assert result.facts.step == 1 / row.steps
    check_size(row, result)
    check_error(result)
    check_blocks(result)
    check_ideal(row, result)


def check_size(row: Row, result: Approximation) -> None:
    """What was planned is what is built is what the table expects."""
    model = result.model
    assert (len(model), sum(p.numel() for p in model.parameters())) == (row.layers, row.parameters)
    assert (result.size.layers, result.size.parameters) == (row.layers, row.parameters)
    if row.method == "yun":
        shape = model.shape
        assert (shape.width, shape.heads, shape.head_dim, shape.hidden) == (row.features, 2, 1, 4)
    else:
        assert model.shape.attention_layers == 1


def check_error(result: Approximation) -> None:
    error = result.error
    assert result.status == "certified-float64"
    assert error.upper is not None
    assert 0 <= error.lower <= error.upper <= result.facts.tol


def check_blocks(result: Approximation) -> None:
    """Look-up and blocks agree on every kind of input."""
    x = torch.cat([random(result, 24), corners(result, 8)])
    assert result.fused.covers(x).all()
    with torch.no_grad():
        assert (result(x) - result.model(x)).abs().max() <= 1e-9


def check_ideal(row: Row, result: Approximation) -> None:
    """yun: f at the centre of the cell, 0 for repeats without positions; gather: within `upper`."""
    f = EXAMPLES[row.function]
    x = torch.cat([random(result, 500), corners(result, 500)])
    y = result(x)
    if row.method == "gather":
        assert result.error.upper is not None
        assert (y - f(x)).abs().max() <= result.error.upper
        return
    step = result.facts.step
    cells = (x / step).floor()
    ideal = f((cells + 0.5) * step)
    if not row.positions:
        same = (cells[:, :, None] == cells[:, None, :]).all(-1)
        repeats = same.sum((1, 2)) > row.tokens
        assert repeats.any()
        assert (y[repeats] == 0).all()
        y, ideal = y[~repeats], ideal[~repeats]
    rounding = next(term.value for term in result.error.terms if term.name == "rounding")
    assert (y - ideal).abs().max() <= rounding
    assert rounding < 1e-5


def test_the_plan_prints_the_sizes_that_get_built() -> None:
    row = TABLE[0]
    result = build(row)
    upper = result.error.upper
    assert upper is not None
    plan = aq.plan(aq.Design(3), 1, upper * 1.001, lipschitz=1.0, norm="lp")
    assert plan.choose("yun").shape == result.model.shape
    text = str(plan)
    assert f"{row.layers:,}" in text
    assert f"{row.parameters:,}" in text


@pytest.mark.parametrize(
    "row", [TABLE[0], TABLE[4], TABLE[5], TABLE[12], TABLE[13]], ids=lambda row: f"{row.function}"
)
def test_inputs_on_the_ramps(row: Row) -> None:
    """They go through the blocks, stay in the range of f, and would not without the clip."""
    result = build(row)
    x = torch.cat([random(result, 5), ramps(result, 60)])
    assert not result.fused.covers(x)[5:].any()
    with torch.no_grad():
        y = result.model(x)
        assert torch.equal(result(x), y)
    bound = float(EXAMPLES[row.function](random(result, 4000)).abs().max())
    assert y.abs().max() <= bound * 1.1
    clip_rows = 2 * -(-row.features // 2)
    with torch.no_grad():
        result.model.get_parameter("down_weight")[-clip_rows:] = 0
        assert result.model(x).abs().max() > 3 * bound, "without the clip an id comes out"
