"""What is known of f bounds the error: derived, attained, and refused where samples contradict."""

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import anyseq as aq
from anyseq.base import generator, uniform
from anyseq.construct.counting.lattice import lattice
from anyseq.construct.gadgets import mixed_differences
from anyseq.construct.request import probe
from anyseq.construct.request.functions import FUNCTIONS
from anyseq.construct.request.smooth import Smoothness
from anyseq.construct.request.target import Function, Target
from anyseq.construct.tables.fused import KuhnTable
from anyseq.errors import InvalidArgument, InvalidFunction


def interpolation_error(f: Function, tokens: int, features: int, steps: int) -> float:
    """The largest error seen of the Kuhn interpolant, at random points and centres."""
    nodes = lattice(steps + 1, tokens * features).double() / steps
    form = KuhnTable(steps, f(nodes.view(-1, tokens, features)))
    x = uniform(4000, tokens, features, rng=generator(0))
    x[:1000] = ((x[:1000] * steps).floor() + 0.5) / steps
    return float((form(x) - f(x)).abs().max())


@pytest.mark.parametrize(("tokens", "features"), [(1, 1), (2, 1), (1, 3), (2, 2)])
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_the_bound_by_curvature_is_attained(tokens: int, features: int, steps: int) -> None:
    def bowl(x: torch.Tensor) -> torch.Tensor:
        return x.square().sum((1, 2), keepdim=True).expand_as(x)

    bound = Smoothness(curvature=2.0).interpolation(tokens, features, 1 / steps).value
    seen = interpolation_error(bowl, tokens, features, steps)
    assert seen <= bound * (1 + 1e-12)
    assert seen == pytest.approx(bound, rel=1e-9)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.5])
def test_the_l_p_bound_by_curvature_is_attained_for_one_axis(p: float) -> None:
    ticks = (torch.arange(4096, dtype=torch.float64) + 0.5) / 4096
    true = float(((ticks - ticks.square()) ** p).mean() ** (1 / p))
    bound = Smoothness(curvature=2.0).interpolation(1, 1, 1.0, p).value
    assert bound == pytest.approx(true, rel=1e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("tokens", "steps"), [(1, 1), (1, 8), (2, 1), (2, 8), (3, 4), (4, 2)])
def test_mixed_differences_stay_below_the_variation(name: str, tokens: int, steps: int) -> None:
    example = FUNCTIONS[name]
    assert example.curvature is not None
    nodes = lattice(steps + 1, tokens).double() / steps
    values = example(nodes.view(-1, tokens, 1)).flatten(1)
    seen = float(mixed_differences(values, tokens).abs().sum(0).max())
    bound = float(values.abs().max())
    for lipschitz in (math.inf, example.lipschitz(tokens, 1)):
        for curvature in (math.inf, example.curvature(tokens, 1)):
            most = Smoothness(lipschitz, curvature=curvature).variation(tokens, steps, bound)
            assert seen <= most * (1 + 1e-12)


def test_constants_per_feature_are_worth_more_than_their_sum() -> None:
    alone = Smoothness(3.0, per_feature=(1.0, 2.0))
    assert alone.interpolation(2, 2, 0.25).value < Smoothness(3.0).interpolation(2, 2, 0.25).value
    assert alone.off_centre(2, 2, 0.25, 2.0).value < Smoothness(3.0).off_centre(2, 2, 0.25, 2).value

    def tents(x: torch.Tensor) -> torch.Tensor:
        tent = 0.25 - (x - 0.25).abs().clamp(max=0.25)
        return (tent * torch.tensor([1.0, 2.0])).amax(1, keepdim=True).sum(2, keepdim=True)

    for tokens in (1, 2, 3):
        seen = interpolation_error(lambda x: tents(x).expand(-1, x.shape[1], 1), tokens, 2, 2)
        bound = alone.interpolation(tokens, 2, 0.5).value
        assert seen <= bound
        assert tokens > 1 or seen > 0.99 * bound


@settings(max_examples=25)
@given(st.floats(0.2, 1.0), st.integers(1, 3), st.sampled_from([1, 2, 4, 8]))
def test_a_modulus_bounds_the_error(power: float, axes: int, steps: int) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return ((x - 1 / 3).abs().amax((1, 2), keepdim=True) ** power).expand_as(x)

    smooth = Smoothness(modulus=lambda h: h**power)
    assert interpolation_error(f, axes, 1, steps) <= smooth.interpolation(axes, 1, 1 / steps).value


def test_a_linear_modulus_is_a_constant_up_to_its_shells() -> None:
    linear, constant = Smoothness(modulus=lambda h: 2 * h), Smoothness(2.0)
    for p in (1.0, 2.0, math.inf):
        ratio = linear.off_centre(3, 1, 0.25, p).value / constant.off_centre(3, 1, 0.25, p).value
        assert 1 - 1e-12 <= ratio < 1.03
    ratio = linear.interpolation(3, 1, 0.25).value / (2.0 * 0.75 * 0.25)
    assert 1 <= ratio < 1.02


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("tokens", "features"), [(1, 1), (2, 1), (3, 1), (2, 2), (4, 3)])
def test_no_bend_beats_the_curvature_of_the_examples(name: str, tokens: int, features: int) -> None:
    example = FUNCTIONS[name]
    assert example.curvature is not None
    bend = example.curvature(tokens, features)
    target = Target(example, tokens, features, None)
    slope = probe.steepest(target, generator(0))
    for seed in range(3):
        probe.check_smooth(target, Smoothness(curvature=bend), slope, seed)


@pytest.mark.parametrize(
    "name", ["times-max", "cosine", "waves", "mean-square", "neighbours", "bump"]
)
def test_less_than_half_the_curvature_is_refused(name: str) -> None:
    example = FUNCTIONS[name]
    assert example.curvature is not None
    with pytest.raises(InvalidFunction, match=r"curvature=.* is too small: between x = "):
        aq.approximate(
            example, aq.Design(2), features=1, tol=0.2, curvature=example.curvature(2, 1) * 0.45
        )


def test_contradictions_name_what_was_given() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x * torch.tensor([1.0, 3.0])

    with pytest.raises(InvalidFunction, match=r"lipschitz\[0\]=0.5 is too small"):
        aq.approximate(f, aq.Design(1), features=2, tol=0.5, lipschitz=[0.5, 3.5])
    with pytest.raises(InvalidFunction, match="the modulus allows"):
        aq.approximate(lambda x: x.sqrt(), aq.Design(1), features=1, tol=0.1, lipschitz=lambda h: h)


@pytest.mark.parametrize(
    ("lipschitz", "curvature", "message"),
    [
        ([1.0], None, "1 constants; expected one per feature, 2"),
        ([1.0, -1.0], None, r"lipschitz\[1\]=-1.0"),
        ("1", None, "lipschitz='1'"),
        (lambda h: 1 - h, None, "the modulus falls"),
        (lambda h: math.nan, None, "the modulus is nan"),
        (lambda h: 1 / 0, None, "the modulus raised ZeroDivisionError"),
        (None, -1.0, "curvature=-1.0"),
        (None, math.inf, "curvature=inf"),
    ],
)
def test_bad_constants_are_named(lipschitz: object, curvature: float, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        aq.plan(aq.Design(2), 2, 0.5, lipschitz=lipschitz, curvature=curvature)  # type: ignore[arg-type]


def test_something_must_be_known_for_a_plan() -> None:
    with pytest.raises(InvalidArgument, match="expected one of them"):
        aq.plan(aq.Design(2), 1, 0.5)


@pytest.mark.parametrize(
    ("f", "lipschitz", "curvature"),
    [
        (lambda x: x.sqrt(), lambda h: h**0.5, None),
        (lambda x: x * torch.tensor([1.0, 0.1]), [1.0, 0.1], None),
        (lambda x: x.square(), None, 2.0),
        (lambda x: x.square(), 2.0, 2.0),
    ],
    ids=["modulus", "per feature", "curvature", "both"],
)
@pytest.mark.parametrize("norm", ["sup", "lp"])
def test_each_kind_certifies(
    f: Function, lipschitz: float | Sequence[float] | None, curvature: float | None, norm: str
) -> None:
    methods = ["gather"] if norm == "sup" or lipschitz is None else ["gather", "yun"]
    for method in methods:
        result = aq.approximate(
            f, aq.Design(1), features=2, tol=0.35, norm=norm, method=method, lipschitz=lipschitz,
            curvature=curvature,
        )  # fmt: skip
        assert result.status == "certified-float64"
        assert result.error.upper is not None
        assert result.error.lower <= result.error.upper <= 0.35
        assert result.certificate is not None
        assert result.certificate.verify()


def test_yun_needs_more_than_a_curvature() -> None:
    plan = aq.plan(aq.Design(1), 1, 0.5, curvature=1.0, norm="lp")
    assert "curvature alone bounds no difference" in plan.refused["yun"]


def test_curvature_makes_gather_cheaper() -> None:
    example = FUNCTIONS["waves"]
    assert example.curvature is not None
    constants = {"lipschitz": example.lipschitz(2, 1), "norm": "lp"}
    plain = aq.plan(aq.Design(2), 1, 0.1, **constants)  # type: ignore[arg-type]
    curved = aq.plan(aq.Design(2), 1, 0.1, curvature=example.curvature(2, 1), **constants)  # type: ignore[arg-type]
    sizes = [made.choose("gather").shape.parameters for made in (plain, curved)]
    assert sizes[0] > 40 * sizes[1]
    assert plain.choose("auto").method == "yun"
    assert curved.choose("auto").method == "gather"
    assert "of curvature at most 78.9568" in str(curved)
