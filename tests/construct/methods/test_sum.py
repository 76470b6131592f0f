"""Method "sum": equal tokens, ramps, its bound under attack, and errors planted in it."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import anyseq as aq
from anyseq.base import silent
from anyseq.construct import Approximation
from anyseq.construct.methods.sum import sum as sums
from anyseq.construct.methods.sum.sum import SumRecipe
from anyseq.construct.request.ask import Ask
from anyseq.construct.request.functions import FUNCTIONS
from anyseq.construct.request.target import Target
from anyseq.construct.tables.fused_cells import ShiftedGrids, border
from anyseq.errors import CannotApproximate, ConstructionFault
from construct.inputs import random


def build(name: str, tokens: int, features: int, tol: float) -> Approximation:
    example = FUNCTIONS[name]
    return aq.approximate(
        example,
        aq.Design(tokens, position=aq.NoPosition()),
        features=features,
        tol=tol,
        method="sum",
        lipschitz=example.lipschitz(tokens, features),
    )


def ask(tokens: int, features: int = 1) -> Ask:
    design = aq.Design(tokens, position=aq.NoPosition())
    return Ask(design, features, features, 1.0, "sup", 2.0, lipschitz=1.0, bound=1.0)


BUILT = {
    ("plus-mean", 1, 1): 0.2,
    ("plus-mean", 2, 1): 0.3,
    ("times-max", 3, 1): 0.3,
    ("cosine", 4, 1): 3.2,
    ("attention", 2, 2): 0.4,
    ("times-max", 3, 2): 0.6,
}
RESULTS = {case: build(*case, tol) for case, tol in BUILT.items()}


def hard(result: Approximation, count: int, seed: int) -> torch.Tensor:
    """Entries at corners, on ramps and on their margins of all grids; some tokens equal."""
    grids = result.fused
    assert isinstance(grids, ShiftedGrids)
    rng = torch.Generator().manual_seed(seed)
    x = random(result, count, seed)
    cell = (x * grids.steps).round().clamp(1, grids.steps - 1)
    shift = torch.randint(0, grids.shifts, (count,), generator=rng).tolist()
    for row, s in enumerate(shift):
        x[row] = border(cell[row], s, steps=grids.steps, ramp=grids.ramp, shifts=grids.shifts)
    x += torch.randint(-2, 5, x.shape, generator=rng) / 2 * grids.ramp
    x += (random(result, count, seed + 1) - 0.5) * grids.ramp * (shift[0] % 2)
    other = torch.randint(0, 4 * grids.shifts, x.shape, generator=rng) - 2 * grids.shifts
    x = torch.where(random(result, count, seed + 2) < 0.4, x + other * grids.ramp, x)
    if x.shape[1] > 1:
        x[: count // 3, 0] = x[: count // 3, -1]
    return x.clamp(0, 1)


@given(st.sampled_from(sorted(RESULTS)), st.integers(0, 10**6))
def test_blocks_and_look_up_agree_and_stay_within_the_bound(
    case: tuple[str, int, int], seed: int
) -> None:
    result = RESULTS[case]
    x = torch.cat([random(result, 10, seed), hard(result, 60, seed)])
    with torch.no_grad():
        blocks = result.model(x)
    assert (blocks - result.fused(x)).abs().max() <= 1e-12
    assert result.fused.covers(x).all()
    assert result.error.upper is not None
    assert (blocks - FUNCTIONS[case[0]](x)).abs().max() <= result.error.upper


@pytest.mark.parametrize("case", RESULTS)
def test_it_commutes_with_permutations_and_equal_tokens_have_equal_outputs(
    case: tuple[str, int, int],
) -> None:
    result = RESULTS[case]
    x = hard(result, 60, 3)
    order = torch.randperm(x.shape[1], generator=torch.Generator().manual_seed(1))
    y = result(x)
    assert torch.allclose(y[:, order], result(x[:, order]), rtol=0, atol=1e-14)
    if x.shape[1] > 1:
        assert torch.equal(y[:20, 0], y[:20, -1])
        assert bool((y[:20, 0] != 0).any())


SHAPES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "own": lambda x: x,
    "largest": lambda x: x.amax(1, keepdim=True).expand_as(x),
    "second": lambda x: x.sort(dim=1).values[:, -2:-1].expand_as(x),
    "distance": lambda x: (x - x.mean(1, keepdim=True)).abs() / 2,
    "sawtooth": lambda x: ((x * 4) % 1 - 0.5).abs().amax(1, keepdim=True).expand_as(x) / 4,
}


@pytest.mark.parametrize("features", [1, 2])
@pytest.mark.parametrize("name", SHAPES)
def test_one_lipschitz_functions_err_by_no_more_than_the_pointwise_bound(
    name: str, features: int
) -> None:
    recipe = SumRecipe(ask(2, features), 2)
    built = recipe.build(Target(SHAPES[name], 2, features, None), silent)
    x = torch.cat(
        [hard(RESULTS["attention", 2, 2], 500, seed)[:, :, :features] for seed in range(3)]
    )
    # the borders of these grids, not of those
    cell = (x * recipe.steps).round().clamp(1, recipe.steps - 1)
    for shift in range(recipe.shifts):
        low = border(cell, shift, steps=recipe.steps, ramp=recipe.ramp, shifts=recipe.shifts)
        for part in (-1.0, 0.0, 1.0, 2.0, 3.0):
            at = (low + part * recipe.ramp).clamp(0, 1)
            assert (built.fused(at) - SHAPES[name](at)).abs().max() <= recipe.pointwise
    assert (built.fused(x) - SHAPES[name](x)).abs().max() <= recipe.pointwise


def test_the_bound_is_nearly_attained() -> None:
    result = RESULTS["plus-mean", 2, 1]
    assert result.error.upper is not None
    assert result.error.lower >= 0.9 * result.error.upper


@dataclass(frozen=True)
class Fewer(SumRecipe):
    """One grid less: D entries can spoil them all."""

    @property
    def shifts(self) -> int:
        return self.ask.axes


def test_one_grid_less_is_not_enough() -> None:
    recipe = Fewer(ask(2), 2)
    built = recipe.build(Target(SHAPES["own"], 2, 1, None), silent)
    cell = torch.tensor([2.0, 3.0]).double()
    low = torch.stack(
        [
            border(cell[s], s, steps=recipe.steps, ramp=recipe.ramp, shifts=recipe.shifts)
            for s in range(2)
        ]
    )
    x = (low + recipe.ramp / 2).view(1, 2, 1)
    assert (built.fused(x) - x).abs().max() > recipe.pointwise


def test_weights_that_collide_are_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "separating_weights", lambda cells, size: list(range(cells)))
    with pytest.raises(ConstructionFault, match="288 keys expected"):
        SumRecipe(ask(3), 3).build(Target(SHAPES["own"], 3, 1, None), silent)


def test_one_wrong_number_shows_in_the_blocks() -> None:
    result = build("plus-mean", 2, 1, 0.3)
    x = random(result, 200)
    before = result(x)
    with torch.no_grad():
        result.model.get_parameter("o_weight")[0] *= 2
        assert not torch.allclose(result.model(x), before)


def test_what_it_refuses() -> None:
    def refusal(**changed: object) -> str:
        usual: dict[str, object] = {"tol": 0.3, "lipschitz": 1.0}
        tokens = int(str(changed.pop("tokens", 2)))
        features = int(str(changed.pop("features", 1)))
        position = changed.pop("position", aq.NoPosition())
        design = aq.Design(tokens, position=position)  # type: ignore[arg-type]
        made = aq.plan(design, features, **(usual | changed))  # type: ignore[arg-type]
        return made.refused.get("sum", "")

    assert refusal() == ""
    assert refusal(tokens=40) == ""
    assert "such as dense attention with position=NoPosition()" in refusal(position=aq.Absolute())
    assert "multisets of cells" in refusal(tokens=3, tol=1e-4)
    assert "multisets of cells" in refusal(features=3000, tol=0.1)
    assert "multisets of cells" in refusal(tokens=20000, tol=0.1)
    assert "bits and float64 holds 53" in refusal(tokens=7, tol=0.04)
    assert "below the proved bound for rounding" in refusal(tol=1e-17, lipschitz=0.0)
    with pytest.raises(CannotApproximate, match="f does not"):
        aq.approximate(
            FUNCTIONS["sort"],
            aq.Design(2, position=aq.NoPosition()),
            features=1,
            tol=0.5,
            method="sum",
        )
