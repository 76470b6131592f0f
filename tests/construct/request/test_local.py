"""Constants told box by box: what is refused, and that the built-in ones hold."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import anyseq as aq
from anyseq.construct.request.functions import gaussian
from anyseq.errors import InvalidArgument, InvalidFunction

SPIKE = aq.functions["spike"]
BAD: dict[str, tuple[Callable[..., object], str]] = {
    "no tensor": (lambda lower, upper: 3.0, "returned float; expected a float64 tensor"),
    "float32": (lambda lower, upper: torch.ones(len(lower)), "returned a torch.float32 tensor"),
    "a number per feature": (lambda lower, upper: upper - lower, r"expected \(1,\)"),
    "one for all": (lambda lower, upper: torch.tensor(3.0).double(), r"expected \(1,\)"),
    "negative": (lambda lower, upper: -(upper - lower).flatten(1).sum(1), "-2.0 on the box from"),
    "NaN": (lambda lower, upper: (upper - lower).flatten(1).sum(1) * math.nan, "nan on the box"),
    "infinite": (lambda lower, upper: (upper - lower).flatten(1).sum(1) / 0.0, "inf on the box"),
    "raises": (lambda lower: lower, "raised TypeError"),
}


@pytest.mark.parametrize("name", ["lipschitz", "curvature"])
@pytest.mark.parametrize("bad", BAD)
def test_bad_callables_are_named(bad: str, name: str) -> None:
    bound, why = BAD[bad]
    constants = {name: aq.Local(bound)}  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=f"{name}: Local.*{why}"):
        aq.plan(aq.Design(2), 1, 0.1, **constants)  # type: ignore[arg-type]


def test_local_wraps_a_function() -> None:
    with pytest.raises(InvalidArgument, match="expected a function of the lower and upper ends"):
        aq.Local(3.0)  # type: ignore[arg-type]


def test_a_bad_answer_on_a_part_of_the_cube_is_named() -> None:
    def bound(lower: torch.Tensor, upper: torch.Tensor) -> torch.Tensor:
        return torch.where(lower.flatten(1).amin(1) >= 0.5, -1.0, 9.0).double()

    with pytest.raises(InvalidArgument, match=r"from \[\[0.5\], \[0.5\]\] to \[\[1.0\], \[1.0\]\]"):
        aq.plan(aq.Design(2), 1, 0.1, lipschitz=aq.Local(bound))


@pytest.mark.parametrize("name", ["lipschitz", "curvature"])
def test_a_bound_too_small_on_some_boxes_is_contradicted(name: str) -> None:
    """Right for the cube, but flat wherever the box is small."""
    true = SPIKE.local_lipschitz if name == "lipschitz" else SPIKE.local_curvature
    assert true is not None

    def bound(lower: torch.Tensor, upper: torch.Tensor) -> torch.Tensor:
        small = (upper - lower).flatten(1).amax(1) < 0.1
        return torch.where(small, 0.0, true.on(name, lower, upper))

    constants = {name: aq.Local(bound)}
    with pytest.raises(InvalidFunction, match=f"{name}.* too small"):
        aq.approximate(SPIKE, aq.Design(2), features=1, tol=0.1, **constants)  # type: ignore[arg-type]


@settings(max_examples=12, deadline=None)
@given(
    st.floats(0.5, 500), st.floats(-0.2, 1.2), st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 3])
)
def test_constants_of_gaussians_hold_in_every_box(
    k: float, centre: float, seed: int, axes: int
) -> None:
    example = gaussian("", "", k, centre)
    assert example.local_lipschitz is not None
    assert example.local_curvature is not None
    rng = torch.Generator().manual_seed(seed)
    ends = torch.rand(2, 10, axes, 1, generator=rng, dtype=torch.float64)
    ends[1, 5:] = ends[0, 5:] + (ends[1, 5:] - ends[0, 5:]) / 16
    lower, upper = ends.amin(0), ends.amax(0)
    steep = example.local_lipschitz.on("lipschitz", lower, upper)
    bent = example.local_curvature.on("curvature", lower, upper)
    for box in range(10):
        share = torch.rand(4, axes, 1, generator=rng, dtype=torch.float64)
        for x in lower[box] + share * (upper[box] - lower[box]):

            def entry(x: torch.Tensor) -> torch.Tensor:
                return example.f(x[None])[0, 0, 0]

            gradient = torch.autograd.functional.jacobian(entry, x)
            hessian = torch.autograd.functional.hessian(entry, x).view(axes, axes)
            assert gradient.abs().sum() <= steep[box]
            assert torch.linalg.matrix_norm(hessian, 2) <= bent[box]


@pytest.mark.parametrize("name", ["bump", "spike"])
def test_constants_of_the_cube_are_the_global_ones(name: str) -> None:
    example = aq.functions[name]
    assert example.local_lipschitz is not None
    assert example.local_curvature is not None
    assert example.curvature is not None
    steep = example.local_lipschitz.everywhere("lipschitz", 2, 1)
    bent = example.local_curvature.everywhere("curvature", 2, 1)
    assert steep == pytest.approx(example.lipschitz(2, 1), rel=1e-9)
    assert bent == pytest.approx(example.curvature(2, 1), rel=1e-9)
