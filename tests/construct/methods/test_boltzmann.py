"""Method "boltzmann": its keys, its ramps, its bound under attack, and errors planted in it."""

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import anyseq as aq
from anyseq.base import silent
from anyseq.construct import Approximation
from anyseq.construct.counting.multisets import multisets
from anyseq.construct.methods.boltzmann import boltzmann
from anyseq.construct.methods.boltzmann.boltzmann import BoltzmannRecipe, contextual_keys, least_gap
from anyseq.construct.request.ask import Ask
from anyseq.construct.request.functions import FUNCTIONS
from anyseq.construct.request.target import Target
from anyseq.construct.tables.fused_cells import Quantised
from anyseq.errors import CannotApproximate, ConstructionFault
from construct.inputs import random


def build(name: str, tokens: int, features: int, tol: float, positions: bool) -> Approximation:
    example = FUNCTIONS[name]
    return aq.approximate(
        example,
        aq.Design(tokens, position=aq.Absolute() if positions else aq.NoPosition()),
        features=features,
        tol=tol,
        norm="lp",
        method="boltzmann",
        lipschitz=example.lipschitz(tokens, features),
    )


def ask(tokens: int, positions: bool, p: float = 2.0) -> Ask:
    design = aq.Design(tokens, position=aq.Absolute() if positions else aq.NoPosition())
    return Ask(design, 1, 1, 0.3, "lp", p, lipschitz=1.0, bound=1.0)


BUILT = {
    ("plus-mean", 1, 1, False): 0.2,
    ("plus-mean", 2, 1, False): 0.3,
    ("times-max", 3, 1, False): 0.4,
    ("attention", 2, 2, False): 0.7,
    ("sort", 1, 1, True): 0.1,
    ("waves", 2, 1, True): 0.4,
    ("sort", 3, 1, True): 0.2,
    ("reverse", 2, 2, True): 0.3,
}
RESULTS = {case: build(*case[:3], tol, case[3]) for case, tol in BUILT.items()}


def hard(result: Approximation, count: int, seed: int) -> torch.Tensor:
    """Entries at and within two ramps of the ends of cells; some tokens equal."""
    table = result.fused
    assert isinstance(table, Quantised)
    rng = torch.Generator().manual_seed(seed)
    x = (random(result, count, seed) * table.steps).round() / table.steps
    x += torch.randint(-4, 3, x.shape, generator=rng) / 2 * table.ramp
    if x.shape[1] > 1:
        x[: count // 3, 0] = x[: count // 3, -1]
    return x.clamp(0, 1)


@given(st.sampled_from(sorted(RESULTS)), st.integers(0, 10**6))
def test_blocks_and_look_up_agree_off_the_ramps_and_stay_small_on_them(
    case: tuple[str, int, int, bool], seed: int
) -> None:
    result, f = RESULTS[case], FUNCTIONS[case[0]]
    x = torch.cat([random(result, 10, seed), hard(result, 60, seed)])
    covered = result.fused.covers(x)
    assert covered[:10].all()
    with torch.no_grad():
        blocks = result.model(x)
    assert torch.equal(blocks[covered], result.fused(x)[covered])
    pointwise = f.lipschitz(case[1], case[2]) * result.facts.step / 2
    assert (blocks - f(x))[covered].abs().max() <= pointwise
    assert blocks.abs().max() <= result.fused.tensors()["values"].abs().max()


@pytest.mark.parametrize("case", [case for case in RESULTS if not case[3] and case[1] > 1])
def test_without_positions_it_commutes_and_serves_equal_tokens(
    case: tuple[str, int, int, bool],
) -> None:
    result = RESULTS[case]
    x = random(result, 60)
    x[:20, 0] = x[:20, -1]
    order = torch.randperm(x.shape[1], generator=torch.Generator().manual_seed(1))
    assert torch.equal(result(x)[:, order], result(x[:, order]))
    assert torch.equal(result(x)[:20, 0], result(x)[:20, -1])
    assert (result(x)[:20] - FUNCTIONS[case[0]](x[:20])).abs().max() < 0.5


@pytest.mark.parametrize(("tokens", "cells"), [(2, 32), (3, 16), (4, 8)])
def test_keys_are_as_exact_as_the_windows_need(tokens: int, cells: int) -> None:
    """Against fifty digits; and the smallest gap of those is the one that was found."""
    numbers = multisets(cells, tokens)
    scale = boltzmann.scale_of(tokens, cells, positions=False)
    found = contextual_keys(numbers.double(), scale)
    allowed = 2.0**-53 * scale * (scale + 64 * (tokens + 4))
    exact = set()
    with localcontext() as context:
        context.prec = 50
        for row, keys in zip(numbers.tolist(), found.tolist(), strict=True):
            weights = [(Decimal(a) / Decimal(scale)).exp() for a in row]
            mean = sum(w * a for w, a in zip(weights, row, strict=True)) / sum(weights)
            for own, key in zip(row, keys, strict=True):
                true = mean + Decimal(scale) * own
                assert abs(Decimal(key) - true) <= Decimal(allowed)
                exact.add(true)
        ascending = sorted(exact)
        gap = min(b - a for a, b in pairwise(ascending))
    assert least_gap(tokens, cells, False) == pytest.approx(float(gap), abs=4 * allowed)
    assert 2 * allowed <= float(gap) / 8


@pytest.mark.parametrize("p", [1.0, 2.0, 8.0])
def test_the_ramps_cost_what_their_term_says(p: float) -> None:
    recipe = BoltzmannRecipe(ask(2, True, p), 3)
    built = recipe.build(Target(FUNCTIONS["sort"], 2, 1, None), silent)
    x = hard(RESULTS["waves", 2, 1, True], 300, 0)
    x = ((x * 8).round() / 8 - recipe.ramp / 2).clamp(0, 1)
    with torch.no_grad():
        gap = (built.model()(x) - FUNCTIONS["sort"](x)).abs()
    term = next(term for term in recipe.terms if term.name == "ramps")
    worst = float((gap**p).sum((1, 2)).max())
    assert 0 < (recipe.exceptional * worst) ** (1 / p) <= term.value
    assert recipe.exceptional < 1e-13


@dataclass(frozen=True)
class Bold(BoltzmannRecipe):
    """It claims a larger gap than there is."""

    @property
    def gap(self) -> float:
        return 2 * least_gap(self.ask.design.tokens, self.token_cells, self.positions)


@pytest.mark.parametrize("positions", [True, False])
def test_a_gap_that_is_not_there_is_not_built(positions: bool) -> None:
    with pytest.raises(ConstructionFault, match="apart; expected"):
        Bold(ask(2, positions), 3).build(Target(FUNCTIONS["plus-mean"], 2, 1, None), silent)


def test_one_wrong_number_shows_in_the_blocks() -> None:
    result = build("sort", 2, 1, 0.3, positions=True)
    x = random(result, 200)
    before = result(x)
    with torch.no_grad():
        assert torch.equal(result.model(x), before)
        result.model.get_parameter("q_bias")[0] *= 1.5
        assert not torch.allclose(result.model(x), before)


def test_what_it_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusal(design: aq.Design, tol: float = 0.3, norm: str = "lp") -> str:
        return aq.plan(design, 1, tol, lipschitz=1.0, norm=norm).refused.get("boltzmann", "")

    assert refusal(aq.Design(2)) == ""
    assert "L^p only" in refusal(aq.Design(2), norm="sup")
    assert refusal(aq.Design(2, position=aq.Rotary()), tol=0.9) == ""
    assert "over 2^22 keys" in refusal(aq.Design(3), tol=0.005)
    monkeypatch.setattr(boltzmann, "least_gap", lambda *sizes: 1e-13)
    assert "only 1e-13 apart: 58 bits, and float64 holds 53" in refusal(aq.Design(2))
    monkeypatch.setattr(boltzmann, "least_gap", lambda *sizes: 0.0)
    with pytest.raises(CannotApproximate, match="only 0 apart"):
        boltzmann.recipe(ask(2, True))


def test_finer_grids_have_smaller_errors() -> None:
    errors = [BoltzmannRecipe(ask(3, True), k).terms[0].value for k in range(1, 6)]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] == pytest.approx(0.25 * math.sqrt(3 * 3 / 5))
