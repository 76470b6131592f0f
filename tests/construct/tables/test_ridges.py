"""A positive kernel of cosines, and its ridges."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anyseq.base import generator, uniform
from anyseq.construct.request.smooth import Smoothness
from anyseq.construct.tables.fused_ridges import RidgeTable, knot_unit
from anyseq.construct.tables.ridges import Ridges, distance, kernel, kernel_error
from anyseq.errors import CannotApproximate

SIZES = [(1, 1, 2), (1, 9, 4), (2, 1, 8), (2, 5, 4), (3, 2, 2), (3, 4, 4), (4, 2, 8)]
"""(axes, degree, steps)."""


def weights(x: torch.Tensor, degree: int) -> torch.Tensor:
    """x (batch, D) -> (batch, nodes): the weights of f at the nodes, from |Σ c_j e^(ijθ)|²."""
    nodes = degree + 1
    c = (torch.arange(1, degree + 2, dtype=torch.float64) * math.pi / (degree + 2)).sin()
    c = (c / c.norm()).to(torch.complex128)
    at = math.pi * (2 * torch.arange(2 * nodes, dtype=torch.float64) + 1) / (2 * nodes)
    apart = math.pi * x[..., None] - at
    waves = torch.exp(1j * torch.arange(degree + 1) * apart[..., None])
    on_circle = (waves @ c).abs() ** 2 / (2 * nodes)
    folded = on_circle[..., :nodes] + on_circle[..., nodes:].flip(-1)
    together: torch.Tensor = folded[:, 0]
    for axis in range(1, x.shape[1]):
        together = (together[:, :, None] * folded[:, axis, None]).flatten(1)
    return together


@pytest.mark.parametrize(("axes", "degree", "steps"), SIZES)
def test_the_kernel_is_a_mean_over_nodes_near_x(axes: int, degree: int, steps: int) -> None:
    x = torch.cat([uniform(200, axes, rng=generator(0)), torch.zeros(1, axes), torch.ones(1, axes)])
    mean = weights(x.double(), degree)
    assert bool((mean >= 0).all())
    assert float((mean.sum(1) - 1).abs().max()) < 1e-12
    nodes = Ridges(axes, degree, steps).nodes()
    far = (x[:, None] - nodes).abs().amax(2)
    assert float((mean * far).sum(1).max()) <= distance(degree) * math.sqrt(axes)
    assert float((mean * (x[:, None] - nodes)[..., 0] ** 2).sum(1).max()) <= distance(degree) ** 2


@pytest.mark.parametrize(("axes", "degree", "steps"), SIZES)
def test_the_ridges_are_those_of_the_kernel(axes: int, degree: int, steps: int) -> None:
    """Interpolated, they are as near as the amplitudes say; at the knots of all, exactly."""
    ridges, rng = Ridges(axes, degree, steps), generator(1)
    values = 2 * uniform(len(ridges.nodes()), 2, 1, rng=rng) - 1
    amplitude = ridges.amplitude(Smoothness(), 1.0)
    table = RidgeTable.of(ridges, values, knot_unit(amplitude + 1, degree), 0)
    x = uniform(100, axes, rng=rng)
    exact = weights(x, degree) @ values.flatten(1)
    found = table(x.view(-1, 1, axes)).flatten(1)
    assert float((found - exact).abs().max()) <= ridges.error * amplitude
    corners = (uniform(50, axes, rng=rng) < 0.5).double()  # u is whole there
    exact = weights(corners, degree) @ values.flatten(1)
    assert float((table(corners.view(-1, 1, axes)).flatten(1) - exact).abs().max()) < 1e-11


@given(st.sampled_from(SIZES), st.integers(0, 2**20))
@settings(max_examples=60, deadline=None)
def test_amplitudes_are_bounded(size: tuple[int, int, int], seed: int) -> None:
    """Of random functions, and of Lipschitz ones, whose values differ little from node to node."""
    axes, degree, _ = size
    ridges, rng = Ridges(axes, degree, 2), generator(seed)
    direction, phase = uniform(axes, rng=rng), 6 * uniform(1, rng=rng)
    smooth = (ridges.nodes() @ (direction / direction.sum()) * 5 + phase).sin() / 5
    rough = 2 * uniform(len(smooth), rng=rng) - 1
    for values, known, bound in ((smooth, Smoothness(1.0), 0.2), (rough, Smoothness(), 1.0)):
        shares = _amplitudes(values, axes, degree)
        sums = torch.cartesian_prod(*[torch.arange(degree + 1)] * axes).view(len(values), -1).sum(1)
        for power in (0, 2):
            total = float((shares.abs() * sums**power)[1:].sum())
            assert total <= ridges.amplitude(known, bound, power) + 1e-12


def _amplitudes(values: torch.Tensor, axes: int, degree: int) -> torch.Tensor:
    nodes = degree + 1
    v = torch.arange(nodes, dtype=torch.float64)
    along = (math.pi * v[:, None] * (2 * v + 1) / (2 * nodes)).cos() * kernel(degree)[:, None]
    along[1:] *= 2
    every = torch.ones(1, 1, dtype=torch.float64)
    for _ in range(axes):
        every = torch.kron(every, along / nodes)
    return every @ values


def test_finer_kernels_err_less() -> None:
    errors = [kernel_error(Smoothness(1.0), 2, 1, degree).value for degree in range(1, 60)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.03
    per_feature = kernel_error(Smoothness(3.0, (1.0, 2.0)), 2, 2, 5).value
    assert per_feature < kernel_error(Smoothness(3.0), 2, 2, 5).value
    modulus = kernel_error(Smoothness(modulus=lambda h: h**0.5), 2, 1, 5)
    assert modulus.value == 2 * math.sqrt(distance(5) * math.sqrt(2))
    with pytest.raises(CannotApproximate, match="curvature alone"):
        kernel_error(Smoothness(curvature=1.0), 2, 1, 5)


def test_weights_at_kinks_are_exact() -> None:
    """Knots are multiples of a power of two that leaves room for their slopes."""
    ridges = Ridges(2, 6, 8)
    unit = knot_unit(3.0, 6)
    table = RidgeTable.of(ridges, uniform(49, 1, 1, rng=generator(2)), unit, 0)
    whole = table.knots / unit
    assert bool((whole == whole.round()).all())
    slopes = whole[1:] - whole[:-1]
    assert float(slopes.abs().max() * table.rate.max()) < 2.0**52
