"""Method "boltzmann" by rounds: designs universal in L^p only, and its bound under attack."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import anyseq as aq
from anyseq.construct import Approximation
from anyseq.construct.methods.boltzmann import boltzmann
from anyseq.construct.methods.boltzmann.rounds import RoundsRecipe
from anyseq.construct.request.ask import Ask
from anyseq.construct.tables.fused_cells import Quantised
from anyseq.errors import CannotApproximate
from anyseq.patterns import Ring
from anyseq.verify import digest
from construct.inputs import random


def moving_mean(x: torch.Tensor) -> torch.Tensor:
    """Causal, and not the same for any two positions."""
    places = torch.arange(1, x.shape[1] + 1, dtype=x.dtype)[:, None]
    return x.cumsum(1) / (1 + places) + places / (4 * x.shape[1])


def last_first(x: torch.Tensor) -> torch.Tensor:
    """Not causal."""
    return x.flip(1) / 2 + x.cumsum(1) / (2 * x.shape[1])


Case = tuple[aq.Design, bool, float]
CASES: dict[str, Case] = {
    "dense bias": (aq.Design(3, position=aq.RelativeBias()), False, 0.4),
    "top of all": (aq.Design(2, position=aq.Rotary(), prob_map=aq.TopK(2)), False, 0.6),
    "dense rotary": (aq.Design(2, position=aq.Rotary()), False, 0.6),
    "buckets, sparsemax": (aq.Design(3, position=aq.T5Bias(), prob_map="sparsemax"), False, 0.5),
    "window, entmax15": (
        aq.Design(4, aq.Window(1), aq.RelativeBias(), prob_map="entmax15"), False, 0.6,
    ),
    "ring, cycle": (aq.Design(3, (Ring(1), aq.Causal()), aq.Rotary()), False, 0.5),
    "no positions": (aq.Design(3, aq.Causal(), aq.NoPosition()), True, 0.8),
    "slopes": (aq.Design(3, aq.Causal(), aq.ALiBi()), True, 0.8),
    "slopes on a star": (aq.Design(4, aq.Longformer(1), aq.ALiBi()), False, 0.6),
    "random heads": (
        aq.Design(3, aq.PerHead(aq.Causal(), aq.Window(1)), aq.NoPosition()), False, 0.5,
    ),
    "BOS on a star": (aq.Design(2, aq.Global((0,)), aq.Rotary(), bos=True), False, 0.8),
    "sinks": (aq.Design(3, aq.Window(1), aq.RelativeBias(), sinks=True), False, 0.5),
    "gains": (aq.Design(3, aq.Window(1), aq.URPE()), False, 0.5),
    "told, sparse": (aq.Design(3, aq.Window(1), bos=True), False, 0.5),
}  # fmt: skip


def build(name: str) -> Approximation:
    design, causal, tol = CASES[name]
    return aq.approximate(
        moving_mean if causal else last_first,
        design,
        features=1,
        tol=tol,
        norm="lp",
        method="boltzmann",
        lipschitz=1.0,
    )


RESULTS = {name: build(name) for name in CASES}


def hard(result: Approximation, count: int, seed: int) -> torch.Tensor:
    """Entries at and within two ramps of the ends of cells; some tokens equal, some all equal."""
    table = result.fused
    assert isinstance(table, Quantised)
    rng = torch.Generator().manual_seed(seed)
    x = (random(result, count, seed) * table.steps).round() / table.steps
    x += torch.randint(-4, 3, x.shape, generator=rng) / 2 * table.ramp
    x[: count // 3, 0] = x[: count // 3, -1]
    x[: count // 6] = x[: count // 6, :1]
    return x.clamp(0, 1)


@given(st.sampled_from(sorted(RESULTS)), st.integers(0, 10**6))
@settings(deadline=None, max_examples=60)
def test_blocks_and_look_up_agree_off_the_ramps_and_stay_small_on_them(
    name: str, seed: int
) -> None:
    result = RESULTS[name]
    x = torch.cat([random(result, 10, seed), hard(result, 60, seed)])
    covered = result.fused.covers(x)
    assert covered[:10].all()
    with torch.no_grad():
        blocks = result.model(x)
    assert torch.equal(blocks[covered], result.fused(x)[covered])
    assert blocks.abs().max() <= result.fused.tensors()["values"].abs().max()


@pytest.mark.parametrize("name", RESULTS)
def test_at_every_centre_the_error_is_none_or_counted(name: str) -> None:
    """The whole grid: f itself but for the pairs that are said to be lost."""
    result, (design, causal, _) = RESULTS[name], CASES[name]
    steps = round(1 / result.facts.step)
    axis = (torch.arange(steps, dtype=torch.float64) + 0.5) / steps
    x = torch.cartesian_prod(*[axis] * design.tokens)[:, :, None]
    wrong = (result(x) != (moving_mean if causal else last_first)(x)).any(2)
    term = sum(term.value for term in result.error.terms if term.name == "alike")
    lost, total = result.facts.checked["pairs lost"].replace(",", "").split(" of ")
    assert wrong.sum() <= int(lost)
    assert total == str(wrong.numel())
    bound = float((moving_mean if causal else last_first)(x).abs().max())
    assert term >= (int(lost) / len(x)) ** 0.5 * 2 * bound
    assert float(wrong.any(1).double().mean()) <= result.error.exceptional


@pytest.mark.parametrize("name", RESULTS)
def test_the_error_in_the_mean_is_below_the_bound(name: str) -> None:
    result, (_, causal, tol) = RESULTS[name], CASES[name]
    x = random(result, 20000, 1)
    f = moving_mean if causal else last_first
    seen = float((result(x) - f(x)).square().sum((1, 2)).mean()) ** 0.5
    assert result.error.upper is not None
    assert seen <= result.error.upper <= tol
    assert result.error.lower <= result.error.upper
    assert result.status == "certified"


@pytest.mark.parametrize("p", [1.0, 2.0, 4.0])
def test_the_bound_is_attained(p: float) -> None:
    """f is 1 at one place and -1 at the other: one of them is lost on constant sequences, and both
    sides of the bound are M^(-1/p)·2."""
    sign = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    result = aq.approximate(
        lambda x: sign.expand(len(x), 2, 1).clone(),
        aq.Design(2, position=aq.RelativeBias()),
        features=1,
        tol=1.5,
        norm="lp",
        p=p,
        method="boltzmann",
        lipschitz=0.0,
    )
    cells = round(1 / result.facts.step)
    wrong = (result.fused.tensors()["values"] - sign).abs() ** p
    attained = float(wrong.sum((1, 2)).mean() ** (1 / p))
    assert attained == pytest.approx(2 * cells ** (-1 / p))
    assert result.error.upper == pytest.approx(attained, rel=1e-6)


@given(st.integers(0, 10**6), st.sampled_from([1.0, 2.0, 5.0]))
@settings(deadline=None, max_examples=15)
def test_no_function_exceeds_its_bound(seed: int, p: float) -> None:
    """Random functions, with the largest jump between positions that there can be."""
    rng = torch.Generator().manual_seed(seed)
    directions = torch.randn(2, 2, generator=rng, dtype=torch.float64)
    directions /= directions.abs().sum(1, keepdim=True)
    places = torch.randint(0, 2, (2,), generator=rng) * 2.0 - 1

    def f(x: torch.Tensor) -> torch.Tensor:
        return (x.flatten(1) @ directions.T / 2 + places.double())[:, :, None]

    result = aq.approximate(
        f,
        aq.Design(2, position=aq.T5Bias()),
        features=1,
        tol=2.0,
        norm="lp",
        p=p,
        method="boltzmann",
        lipschitz=0.5,
    )
    x = random(result, 4000, seed)
    x = torch.cat([x, x[:, :1].expand(-1, 2, -1)])
    apart = (result(x) - f(x)).abs()
    assert result.error.upper is not None
    assert float((apart[:4000] ** p).sum((1, 2)).mean() ** (1 / p)) <= result.error.upper
    assert float(apart.max()) <= 2 * float(f(x).abs().max())


def test_auto_takes_it_where_nothing_else_serves() -> None:
    design = aq.Design(2, position=aq.RelativeBias())
    plan = aq.plan(design, 1, 0.9, lipschitz=1.0, norm="lp")
    assert plan.choose("auto", proved=True).method == "boltzmann"
    assert "that this design cannot" in str(plan)
    assert "sup norm" in aq.plan(design, 1, 0.9, lipschitz=1.0).refused["gather"]


def test_rounds_are_as_few_as_the_tolerance_allows() -> None:
    design = aq.Design(3, aq.Causal(), aq.NoPosition())

    def recipe(tol: float) -> RoundsRecipe:
        found = boltzmann.recipe(Ask(design, 1, 1, tol, "lp", 2.0, 0.5, 1.0))
        assert isinstance(found, RoundsRecipe)
        return found

    loose, tight = recipe(2.5), recipe(0.9)
    assert (len(loose.rounds), len(tight.rounds)) == (1, 2)
    assert loose.shape.parameters < tight.shape.parameters
    assert loose.exceptional > tight.exceptional


@pytest.mark.parametrize("name", ["window, entmax15", "BOS on a star", "gains"])
def test_a_loaded_result_is_the_same(name: str, tmp_path: Path) -> None:
    result = RESULTS[name]
    result.save(tmp_path / "r")
    loaded = aq.load(tmp_path / "r")
    x = random(result, 50)
    with torch.no_grad():
        assert torch.equal(loaded.model(x), result.model(x))
    assert loaded.certificate is not None
    assert loaded.certificate.verify()


def test_a_network_that_is_not_its_table_is_found() -> None:
    result = build("dense rotary")
    held = result.certificate
    assert held is not None
    with torch.no_grad():
        result.model.get_parameter("o_weight")[0] *= 1.001
    forged = replace(held, weights_sha256=digest(result.model.state_dict()))
    failed = {check.name: check.why for check in forged.verify().checks if check.passed is False}
    assert "network" in failed


def test_one_wrong_number_shows_in_the_blocks() -> None:
    result = build("dense rotary")
    x = random(result, 200)
    before = result(x)
    with torch.no_grad():
        result.model.get_parameter("o_weight")[0] *= 1.001
        assert not torch.allclose(result.model(x), before)


def test_a_deeper_design_waits() -> None:
    design = aq.Design(2, position=aq.Absolute(), bos=True, depth=400)
    result = aq.approximate(
        last_first, design, features=1, tol=0.6, norm="lp", method="boltzmann", lipschitz=1.0
    )
    assert len(result.model) == 400
    x = random(result, 50)
    with torch.no_grad():
        assert torch.equal(result.model(x), result.fused(x))


@pytest.mark.parametrize(
    ("design", "tol", "why"),
    [
        (aq.Design(2, position=aq.Rotary(), prob_map="hardmax"), 0.9, "continuous probability"),
        (aq.Design(3, position=aq.Rotary(), prob_map=aq.TopK(2)), 0.9, "continuous probability"),
        (aq.Design(2, position=aq.Sinusoidal(), bos=True), 0.9, "only learned vectors are added"),
        (aq.Design(4, aq.Blocks(2), aq.Rotary()), 0.9, "never reaches"),
        (aq.Design(4, Ring(1), aq.NoPosition()), 0.9, "in L^p"),
        (aq.Design(4, position=aq.RelativeBias()), 0.01, "over 2^"),
    ],
)
def test_what_it_refuses(design: aq.Design, tol: float, why: str) -> None:
    with pytest.raises(CannotApproximate, match=why.replace("^", r"\^")):
        boltzmann.recipe(Ask(design, 1, 1, tol, "lp", 2.0, lipschitz=1.0, bound=1.0))


def test_slopes_serve_functions_that_commute_with_permutations() -> None:
    """ALiBi's heads tell a sequence apart from all but its mirror image, whose values are alike."""

    def highest(x: torch.Tensor) -> torch.Tensor:
        return x.amax(1, keepdim=True) - x

    design = aq.Design(2, position=aq.ALiBi())
    built = aq.approximate(
        highest, design, features=1, tol=0.5, norm="lp", method="boltzmann", lipschitz=2.0
    )
    assert built.error.upper is not None
    assert any("commutes with permutations" in one for one in built.error.assumes)
    x = random(built, 500)
    error = (built(x) - highest(x)).square().sum((1, 2)).mean().sqrt()
    assert error <= built.error.upper <= 0.5


def test_bits_and_measures_are_those_of_float64() -> None:
    for result in RESULTS.values():
        assert int(result.facts.checked["ids of"].split()[0]) <= 53
        assert 0 < result.error.exceptional < 1
        assert math.isfinite(result.error.lower)


def test_what_found_its_positions_out_can_be_loaded(tmp_path: Path) -> None:
    """A causal mask tells positions apart although the design has none."""
    design = aq.Design(2, aq.Causal(), aq.NoPosition())
    result = aq.approximate(
        lambda x: x.cumsum(1) / 2, design, features=1, tol=0.6, norm="lp", lipschitz=1.0,
        method="boltzmann",
    )  # fmt: skip
    result.save(tmp_path / "causal")
    again = aq.load(tmp_path / "causal")
    x = torch.rand(8, 2, 1, dtype=torch.float64)
    assert torch.equal(again(x), result(x))
    assert again.certificate is not None
    assert again.certificate.verify()
