"""A curvature may be told of f between kinks at x_i = x_j, and of no other kinks."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import anyseq as aq
from anyseq.base import generator, uniform
from anyseq.construct.counting.lattice import lattice
from anyseq.construct.request.functions import FUNCTIONS
from anyseq.construct.request.smooth import Smoothness
from anyseq.construct.request.target import Function
from anyseq.construct.tables.fused import KuhnTable
from anyseq.errors import InvalidFunction


def folded(weights: torch.Tensor, bend: float) -> Function:
    """Σ_ij w_ij |x_i - x_j| + bend |x|²/2: of curvature |bend| where no two entries are equal."""

    def f(x: torch.Tensor) -> torch.Tensor:
        flat = x.flatten(1)
        apart = (flat[:, :, None] - flat[:, None, :]).abs()
        value = (weights * apart).sum((1, 2)) + bend / 2 * flat.square().sum(1)
        return value[:, None, None].expand_as(x)

    return f


@settings(max_examples=40)
@given(
    st.sampled_from([(1, 2), (2, 1), (3, 1), (2, 2), (4, 1)]),
    st.sampled_from([1, 2, 3, 4]),
    st.floats(-3, 3),
    st.integers(0, 1000),
)
def test_kinks_at_equal_entries_cost_nothing(
    sizes: tuple[int, int], steps: int, bend: float, seed: int
) -> None:
    tokens, features = sizes
    axes = tokens * features
    f = folded(torch.randn(axes, axes, generator=generator(seed), dtype=torch.float64), bend)
    nodes = lattice(steps + 1, axes).double() / steps
    form = KuhnTable(steps, f(nodes.view(-1, tokens, features)))
    x = uniform(500, tokens, features, rng=generator(seed))
    x[:100] = ((x[:100] * steps).floor() + 0.5) / steps
    x[100:200] = x[100:200, :1, :1] + 1e-9 * x[100:200]  # next to all kinks
    error = (form(x) - f(x)).abs()
    known = Smoothness(curvature=abs(bend))
    assert float(error.max()) <= known.interpolation(tokens, features, 1 / steps).value + 1e-12
    mean = float(error[200:, 0, 0].square().mean().sqrt())
    assert mean <= known.interpolation(tokens, features, 1 / steps, 2.0).value * 1.2 + 1e-12


@pytest.mark.parametrize(("tokens", "features"), [(2, 1), (4, 1), (2, 2)])
@pytest.mark.parametrize("name", ["sort", "running-max"])
def test_one_cube_is_enough_to_sort(name: str, tokens: int, features: int) -> None:
    result = aq.approximate(
        FUNCTIONS[name], aq.Design(tokens), features=features, tol=1e-6, curvature=0.0
    )
    assert (result.method, result.facts.step) == ("gather", 1.0)
    assert result.status == "certified-float64"
    x = uniform(300, tokens, features, rng=generator(1))
    with torch.no_grad():
        off = (result.model(x) - FUNCTIONS[name](x)).abs().max()
    assert result.error.upper is not None
    assert float(off) <= result.error.upper < 1e-8
    assert result.certificate is not None
    assert result.certificate.verify()


ELSEWHERE: dict[str, Function] = {
    "at a number": lambda x: (x - 0.3).abs(),
    "at a sum": lambda x: (x.sum((1, 2), keepdim=True) - 1).abs().expand_as(x),
    "next to equal": lambda x: (x - x.flip(1) - 0.25).abs(),
    "at a mean": lambda x: (x - 0.6 * x.flip(1)).abs(),
}


@pytest.mark.parametrize("name", ELSEWHERE)
@pytest.mark.parametrize("norm", ["sup", "lp"])
def test_kinks_elsewhere_are_refused(name: str, norm: str) -> None:
    with pytest.raises(InvalidFunction, match=r"curvature=0.5 is too small: between x = "):
        aq.approximate(ELSEWHERE[name], aq.Design(2), features=1, tol=0.1, norm=norm, curvature=0.5)


@pytest.mark.parametrize("jump", [1.0, 1e-3])
def test_jumps_at_equal_entries_are_refused(jump: float) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + jump * (x == x.amax(1, keepdim=True)).double()

    with pytest.raises(InvalidFunction, match=r"expected a continuous f, but between x = \[\["):
        aq.approximate(f, aq.Design(2), features=1, tol=0.1, norm="lp", curvature=0.0)


def test_half_the_curvature_of_times_max_is_refused_where_it_bends() -> None:
    with pytest.raises(InvalidFunction, match=r"curvature=0.9 is too small"):
        aq.approximate(FUNCTIONS["times-max"], aq.Design(3), features=1, tol=0.1, curvature=0.9)


def test_the_second_opinion_allows_kinks_at_equal_entries_only() -> None:
    result = aq.approximate(
        FUNCTIONS["times-max"], aq.Design(2), features=1, tol=0.01, lipschitz=2.0, curvature=2.0
    )
    certificate = result.certificate
    assert certificate is not None
    assert certificate.verify()
    smaller = replace(certificate, claim=replace(certificate.claim, curvature=1.9))
    assert "bend by" in str(smaller.verify())
    assert not smaller.verify()


@settings(max_examples=12)
@given(
    st.sampled_from([2, 3]), st.floats(0, 2), st.integers(0, 100), st.sampled_from(["sup", "lp"])
)
def test_no_input_beats_the_bound(tokens: int, bend: float, seed: int, norm: str) -> None:
    """The certificate holds, and a search by gradient-free steps finds nothing beyond `upper`."""
    weights = torch.randn(tokens, tokens, generator=generator(seed), dtype=torch.float64)
    f = folded(weights, bend)
    result = aq.approximate(
        f, aq.Design(tokens), features=1, tol=0.3, norm=norm, method="gather", curvature=bend
    )
    assert result.error.upper is not None
    assert result.error.lower <= result.error.upper <= 0.3
    if norm == "sup":
        x = uniform(2000, tokens, 1, rng=generator(seed))
        x[:1000] = x[:1000, :1] + 1e-6 * (x[:1000] - 0.5)
        x = x.clamp(0, 1)
        assert float((result(x) - f(x)).abs().max()) <= result.error.upper
