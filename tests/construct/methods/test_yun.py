"""Method "yun": what happens off the good set, and errors planted on the good one."""

import math
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import anyseq as aq
from anyseq.base import UNIT_ROUNDOFF, silent
from anyseq.construct import Approximation
from anyseq.construct.contextual import Contextual
from anyseq.construct.methods.yun.windows import Windows
from anyseq.construct.methods.yun.yun import YunRecipe
from anyseq.construct.request.ask import Ask
from anyseq.construct.request.error import combine
from anyseq.construct.request.functions import FUNCTIONS
from anyseq.construct.request.target import Target
from anyseq.errors import ConstructionFault, InvalidFunction
from construct.inputs import ramps, random


def build(name: str, tokens: int, features: int, tol: float, positions: bool) -> Approximation:
    example = FUNCTIONS[name]
    return aq.approximate(
        example,
        aq.Design(tokens, position=aq.Absolute() if positions else aq.NoPosition()),
        features=features,
        tol=tol,
        norm="lp",
        method="yun",
        lipschitz=example.lipschitz(tokens, features),
    )


def ask(positions: bool = True) -> Ask:
    position = aq.Absolute() if positions else aq.NoPosition()
    return Ask(aq.Design(3, position=position), 1, 1, 0.3, "lp", 2.0, lipschitz=1.0, bound=1.0)


WITHOUT = {
    (2, 1): build("plus-mean", 2, 1, 0.7, positions=False),
    (3, 1): build("times-max", 3, 1, 1.0, positions=False),
    (2, 2): build("attention", 2, 2, 1.0, positions=False),
}


FAR = st.one_of(st.floats(1e-9, 50), st.sampled_from([1e3, 1e4, 3e5, 1e9, 1e12, 2.0**52]))


@given(st.sampled_from(sorted(WITHOUT)), st.integers(0, 1000), FAR)
def test_theorem_2_maps_sequences_outside_the_domain_to_zero(
    sizes: tuple[int, int], seed: int, far: float
) -> None:
    result = WITHOUT[sizes]
    x = random(result, 20, seed)
    outside = random(result, 20, seed + 1) < 0.4
    outside[:, 0, 0] = True
    side = random(result, 20, seed + 2) < 0.5
    x = torch.where(outside, torch.where(side, -far * (x + 0.1), 1 + far * (x + 0.1)), x)
    with torch.no_grad():
        assert (result.model(x) == 0).all()


def test_theorem_2_commutes_with_permutations() -> None:
    for result in WITHOUT.values():
        x = random(result, 50)
        order = torch.randperm(x.shape[1], generator=torch.Generator().manual_seed(1))
        assert torch.equal(result(x)[:, order], result(x[:, order]))


@pytest.mark.parametrize("positions", [True, False])
@pytest.mark.parametrize("p", [1.0, 2.0, 8.0])
def test_the_ramps_cost_what_their_term_says(positions: bool, p: float) -> None:
    """The error on the ramps, in every entry the largest found, is within the term of the plan."""
    result = build("plus-mean", 2, 1, 0.7, positions)
    x = ramps(result, 300)
    with torch.no_grad():
        gap = (result.model(x) - FUNCTIONS["plus-mean"](x)).abs()
    position = aq.Absolute() if positions else aq.NoPosition()
    question = replace(ask(), design=aq.Design(2, position=position), p=p, bound=2.0)
    recipe = YunRecipe(question, round(-math.log2(result.facts.step)))
    worst = float((gap**p).sum((1, 2)).max())
    term = next(term for term in recipe.terms if term.name == "ramps")
    assert 0 < (recipe.ramp_measure * worst) ** (1 / p) <= term.value
    assert recipe.ramp_measure < 1e-9


@dataclass(frozen=True)
class Colliding(YunRecipe):
    """Ids that collide: the mapping has lost its global shift."""

    @property
    def context(self) -> Contextual:
        @dataclass(frozen=True)
        class Weak(Contextual):
            @property
            def global_shift(self) -> int:
                return 0

        return Weak(self.ask.design.tokens, 1, 1, self.log_steps, self.positions)


@pytest.mark.parametrize("positions", [True, False])
def test_a_mapping_that_collides_is_not_built(positions: bool) -> None:
    target = Target(FUNCTIONS["plus-mean"], 3, 1, None)
    with pytest.raises(ConstructionFault, match="contextual mapping"):
        Colliding(ask(positions), 3).build(target, silent)


@dataclass(frozen=True)
class Touching(Windows):
    """Value windows that overlap."""

    @property
    def half_width(self) -> float:
        return 8 * super().half_width


@dataclass(frozen=True)
class Wide(YunRecipe):
    @property
    def windows(self) -> Windows:
        return Touching(self.context, self.ask.bound)


def test_overlapping_windows_are_not_built() -> None:
    with pytest.raises(ConstructionFault, match=r"value windows .* overlap"):
        Wide(ask(), 3).build(Target(FUNCTIONS["sort"], 3, 1, None), silent)


def test_values_larger_than_estimated_are_planned_for() -> None:
    """Without a constant the bound is a guess; a spike at a cell's centre exceeds it."""

    def spike(x: torch.Tensor) -> torch.Tensor:
        return torch.where((x - 0.75).abs() < 1e-5, 4.0, x)

    for tokens in (1, 2, 3):
        result = aq.approximate(
            spike, aq.Design(tokens), features=1, tol=6.0, norm="lp", method="yun"
        )
        x = torch.cat([random(result, 20), torch.full((1, tokens, 1), 0.8).double()])
        with torch.no_grad():
            assert (result(x) - result.model(x)).abs().max() <= 1e-9
    with pytest.raises(InvalidFunction, match="is too small"):
        aq.approximate(
            spike, aq.Design(1), features=1, tol=3.0, norm="lp", method="yun", lipschitz=1.0
        )


def test_a_spike_that_contradicts_the_constant_is_refused_in_l_p_too() -> None:
    def spike(x: torch.Tensor) -> torch.Tensor:
        near = ((x - 0.96875).abs() < 1e-5).all(1, keepdim=True)
        return torch.where(near, 254.0, x)

    for method in ("yun", "gather"):
        with pytest.raises(InvalidFunction, match="is too small"):
            aq.approximate(
                spike, aq.Design(2), features=1, tol=0.03, norm="lp", method=method, lipschitz=1.0
            )


def test_one_wrong_number_shows_in_the_blocks() -> None:
    """No hidden look-up: the blocks alone make the output, so a planted error changes it."""
    result = build("sort", 2, 1, 0.3, positions=True)
    x = random(result, 200)
    before = result(x)
    with torch.no_grad():
        assert torch.equal(result.model(x), before)
        result.model.get_parameter("o_weight")[3] *= 2
        assert not torch.allclose(result.model(x), before)


@given(st.integers(1, 4), st.integers(1, 4), st.booleans(), st.sampled_from([1.0, 2.0, 4.0]))
def test_finer_grids_have_smaller_errors(
    tokens: int, log_steps: int, positions: bool, p: float
) -> None:
    position = aq.Absolute() if positions else aq.NoPosition()
    question = replace(ask(), design=aq.Design(tokens, position=position), p=p)
    coarse, fine = (YunRecipe(question, k) for k in (log_steps, log_steps + 1))
    if fine.id_bits <= 53:
        assert combine(fine.terms, "lp", p) <= combine(coarse.terms, "lp", p)


def test_the_id_bits_are_those_of_the_ids() -> None:
    for log_steps in (2, 3, 4):
        found = YunRecipe(ask(), log_steps)
        sequences = found.context.sequences()
        largest = int(found.context.final_ids(sequences).max())
        assert found.id_bits == largest.bit_length()


@given(st.integers(1, 4), st.integers(1, 2), st.integers(1, 8), st.sampled_from([0.01, 1.0, 50.0]))
def test_rescaling_leaves_every_id_on_top_of_its_bump(
    tokens: int, features: int, log_steps: int, bound: float
) -> None:
    """Where it rounds, ids move by at most a quarter of what a window is wide on either side."""
    question = replace(ask(), design=aq.Design(tokens), features=features, bound=bound)
    found = YunRecipe(question, log_steps)
    if found.id_bits <= 53 and found.windows.scale < 1:
        assert UNIT_ROUNDOFF * found.windows.largest <= found.windows.half_width / 4
