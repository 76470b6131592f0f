import json
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import anyseq as aq
from anyseq.base import generator
from anyseq.construct.request import probe
from anyseq.construct.request.functions import FUNCTIONS, cosine
from anyseq.construct.request.smooth import Smoothness
from anyseq.construct.request.target import Function, Target
from anyseq.errors import CannotApproximate, InvalidFunction


@given(
    st.sampled_from([*FUNCTIONS.values(), cosine(3)]),
    st.integers(1, 4),
    st.integers(1, 2),
    st.integers(0, 5),
)
def test_no_slope_beats_the_constants_of_the_examples(
    example: aq.construct.Example, tokens: int, features: int, seed: int
) -> None:
    slope = probe.steepest(Target(example, tokens, features, None), generator(seed))
    assert slope.value <= example.lipschitz(tokens, features) * (1 + 1e-9)
    assert slope.typical <= slope.value


@pytest.mark.parametrize("name", ["sort", "reverse", "running-max", "plus-mean", "cosine"])
def test_slopes_reach_the_constants(name: str) -> None:
    example = FUNCTIONS[name]
    slope = probe.steepest(Target(example, 3, 1, None), generator(0))
    assert slope.value == pytest.approx(example.lipschitz(3, 1), rel=1e-3)


def test_the_pair_shows_the_slope() -> None:
    target = Target(FUNCTIONS["cosine"], 2, 1, None)
    slope = probe.steepest(target, generator(0))
    change = (target(slope.x[None]) - target(slope.y[None])).abs().max()
    assert float(change / (slope.x - slope.y).abs().max()) == pytest.approx(slope.value)


def test_a_constant_that_is_too_small_is_refused_with_two_inputs() -> None:
    with pytest.raises(InvalidFunction, match=r"lipschitz=0.5 is too small: between x = \[\[.*y ="):
        aq.approximate(FUNCTIONS["reverse"], aq.Design(2), features=1, tol=0.1, lipschitz=0.5)


def test_a_constant_too_small_on_a_small_set_is_found_by_the_error() -> None:
    """A spike that slopes at random points do not meet, but the search does."""

    def spike(x: torch.Tensor) -> torch.Tensor:
        far = (x - 0.5).abs().amax((1, 2), keepdim=True)
        return (1 - far * 64).clamp(min=0).expand_as(x)

    with pytest.raises(InvalidFunction, match="is too small"):
        aq.approximate(spike, aq.Design(3), features=1, tol=0.1, lipschitz=0.01)


@given(st.sampled_from([*FUNCTIONS.values()]), st.integers(1, 4))
def test_largest_value_is_a_bound(example: aq.construct.Example, tokens: int) -> None:
    target = Target(example, tokens, 1, None)
    bound = probe.largest_value(target, Smoothness(example.lipschitz(tokens, 1)))
    x = torch.rand(500, tokens, 1, generator=generator(1), dtype=torch.float64).round(decimals=1)
    assert float(target(x).abs().max()) <= bound


JUMPS: dict[str, Function] = {
    "step": lambda x: (x > 0.3).double(),
    "rounding": lambda x: (4 * x).floor() / 4,
    "off the axes": lambda x: (x.sum((1, 2), keepdim=True) > 1.1).double().expand_as(x),
    "argmax": lambda x: (x == x.amax(1, keepdim=True)).double(),
}


@pytest.mark.parametrize("name", JUMPS)
def test_jumps_are_refused_in_sup_norm_with_two_inputs(name: str) -> None:
    with pytest.raises(CannotApproximate, match="f is not continuous") as caught:
        aq.approximate(JUMPS[name], aq.Design(2), features=1, tol=0.1)
    (reason,) = caught.value.reasons
    x, y = (
        torch.tensor(json.loads(text), dtype=torch.float64)
        for text in re.findall(r"[xy] = (\[.*?\]\])", reason)
    )
    f = JUMPS[name]
    assert (x - y).abs().max() < 1e-9
    assert (f(x[None]) - f(y[None])).abs().max() > 0.1


@pytest.mark.parametrize("name", ["step", "rounding"])
def test_jumps_are_accepted_in_l_p(name: str) -> None:
    result = aq.approximate(JUMPS[name], aq.Design(2), features=1, tol=0.3, norm="lp", method="yun")
    assert result.status == "conditional"
    assert result.error.upper is None
    assert result.error.lower <= 0.3


@pytest.mark.parametrize(
    "f",
    [lambda x: x.sqrt(), lambda x: torch.sin(300 * x), lambda x: (x - 0.3).abs()],
    ids=["root", "steep", "kink"],
)
def test_continuous_functions_are_not_taken_for_jumps(f: Function) -> None:
    for tol in (1e-3, 1e-13):
        probe.check_continuous(Target(f, 2, 1, None), tol, None, generator(0))


@pytest.mark.parametrize("lipschitz", [1e12, None])
def test_steep_is_not_a_jump(lipschitz: float | None) -> None:
    f = Target(lambda x: 1e12 * x, 2, 1, None)
    known = None if lipschitz is None else Smoothness(lipschitz)
    probe.check_continuous(f, 0.5, known, generator(0))


def test_a_jump_is_one_with_a_constant_too() -> None:
    with pytest.raises(CannotApproximate, match="f is not continuous"):
        aq.approximate(JUMPS["step"], aq.Design(2), features=1, tol=0.1, lipschitz=5.0)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_rounding_is_no_slope_and_no_asymmetry(offset: float) -> None:
    slope = probe.steepest(Target(lambda x: 0.3 * x + offset, 2, 1, None), generator(0))
    probe.check_lipschitz(0.3, slope)
    mean = Target(lambda x: 1e8 * (x + x.mean(1, keepdim=True)), 3, 1, None)
    probe.check_equivariant(mean, generator(0))


def test_many_entries_need_no_more_memory() -> None:
    slope = probe.steepest(Target(lambda x: x, 400, 1, None), generator(0))
    assert slope.value == pytest.approx(1)


def test_functions_that_need_positions_are_refused_without() -> None:
    design = aq.Design(3, position=aq.NoPosition())
    with pytest.raises(CannotApproximate, match="without positions") as caught:
        aq.approximate(FUNCTIONS["reverse"], design, features=1, tol=0.5, norm="lp")
    assert "reordered by" in caught.value.reasons[0]


def test_curvature_alone_bounds_nothing_in_many_dimensions() -> None:
    with pytest.raises(CannotApproximate, match="give lipschitz= as well"):
        aq.approximate(
            lambda x: x,
            aq.Design(30),
            features=1,
            tol=0.1,
            curvature=1.0,
            norm="mean",
            method="fit",
        )
