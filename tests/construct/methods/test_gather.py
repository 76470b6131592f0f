"""Method "gather": the error constant, and rounding within its bound."""

from fractions import Fraction
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import anyseq as aq
from anyseq.construct.methods.gather.gather import GatherRecipe
from anyseq.construct.request.ask import Ask


def recipe(tokens: int, log_steps: int, features: int = 1) -> GatherRecipe:
    ask = Ask(aq.Design(tokens), features, 1, 0.1, "sup", 2.0, lipschitz=1.0, bound=1.0)
    return GatherRecipe(ask, log_steps)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_the_constant_bounds_the_weighted_distance_to_the_nodes(fractions: list[float]) -> None:
    """Σ w_k max|x - v_k| <= δ(3/4 - 1/(2(D+1))), whatever the fractions."""
    axes = len(fractions)
    y = [1.0, *sorted(fractions, reverse=True), 0.0]
    total = sum((a - b) * max(1 - a, b) for a, b in pairwise(y))
    assert total <= 0.75 - 1 / (2 * (axes + 1)) + 1e-12


@pytest.mark.parametrize("axes", [1, 3, 5, 7])
def test_the_constant_is_attained_for_odd_dimensions(axes: int) -> None:
    y = [1 - k / (axes + 1) for k in range(axes + 2)]
    total = sum((a - b) * max(1 - a, b) for a, b in pairwise(y))
    assert total == pytest.approx(0.75 - 1 / (2 * (axes + 1)))


@given(st.integers(1, 8), st.integers(0, 5))
def test_the_cut_is_the_cheapest(tokens: int, log_steps: int) -> None:
    if (2**log_steps + 1) ** tokens > 10**7:
        return
    found = recipe(tokens, log_steps)
    others = [found._shape(found._wiring(2**power)) for power in range(log_steps + 2)]
    assert found.shape.parameters == min(other.parameters for other in others)


def test_rounding_stays_within_its_term() -> None:
    """The network against the interpolant in extended precision."""
    f = aq.functions["waves"]
    result = aq.approximate(f, aq.Design(2), features=1, tol=0.8, lipschitz=f.lipschitz(2, 1))
    rounding = next(term.value for term in result.error.terms if term.name == "rounding")
    x = torch.rand(40, 2, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad():
        found = result.model(x)
    steps = round(1 / result.facts.step)
    for sequence, y in zip(x.flatten(1).tolist(), found.flatten(1).tolist(), strict=True):
        scaled = [Fraction(entry) * steps for entry in sequence]
        corner = [int(entry) for entry in scaled]
        order = sorted(range(2), key=lambda axis: corner[axis] - scaled[axis])
        fractions = [Fraction(1), *(scaled[a] - corner[a] for a in order), Fraction(0)]
        exact = [Fraction(0), Fraction(0)]
        for axis, (high, low) in zip([*order, None], pairwise(fractions), strict=True):
            node = torch.tensor(corner, dtype=torch.float64).view(1, 2, 1) / steps
            for token, value in enumerate(f(node).flatten().tolist()):
                exact[token] += (high - low) * Fraction(value)
            if axis is not None:
                corner[axis] += 1
        for token in range(2):
            assert abs(Fraction(y[token]) - exact[token]) <= rounding
    assert rounding < 1e-8
