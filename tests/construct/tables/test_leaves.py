"""Adaptive grids: leaves fill the cube; T is never worse than an even grid of the leaf's side."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import anyseq as aq
from anyseq.construct.counting.lattice import lattice
from anyseq.construct.request.smooth import Smoothness
from anyseq.construct.tables.fused import KuhnTable
from anyseq.construct.tables.fused_adaptive import HatTable
from anyseq.construct.tables.leaves import Leaves, refine
from anyseq.errors import CannotApproximate

SPIKE = aq.functions["spike"]


def told(axes: int) -> Smoothness:
    assert SPIKE.local_curvature is not None
    return Smoothness(
        SPIKE.lipschitz(axes, 1), curvature=400.0, local_curvature=SPIKE.local_curvature
    )


def cut_at_random(axes: int, cuts: int, seed: int) -> Leaves:
    """Leaves of very different sizes side by side."""
    rng = torch.Generator().manual_seed(seed)
    leaves = Leaves.whole(Smoothness(1.0), axes, 1)
    for _ in range(cuts):
        rows = torch.randint(len(leaves), (1,), generator=rng)
        if int(leaves.level[rows]) < 6:
            leaves = leaves.replace(rows, leaves.cut(rows))
    return leaves


def points(leaves: Leaves) -> torch.Tensor:
    nodes = leaves.nodes.double() * 2.0**-leaves.finest
    return nodes.view(-1, leaves.tokens, leaves.features)


def in_leaves(leaves: Leaves, each: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(inputs, tokens, features), `each` in every leaf, centres among them; and their leaves."""
    rng = torch.Generator().manual_seed(seed)
    share = torch.rand(len(leaves), each, leaves.axes, generator=rng, dtype=torch.float64)
    share[:, 0] = 0.5
    side = 2.0 ** -leaves.level.double()[:, None, None]
    x = (leaves.corner[:, None] + share) * side
    leaf = torch.arange(len(leaves)).repeat_interleave(each)
    return x.view(-1, leaves.tokens, leaves.features), leaf


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 3), st.integers(0, 25), st.integers(0, 2**32 - 1))
def test_no_convex_function_is_further_off_than_on_an_even_grid(
    axes: int, cuts: int, seed: int
) -> None:
    """The heart of the proof: for convex q, q <= T q <= I q, with I of the leaf's own step."""
    leaves = cut_at_random(axes, cuts, seed)
    rng = torch.Generator().manual_seed(seed)
    slopes = torch.randn(axes, 6, generator=rng, dtype=torch.float64)
    shifts = torch.randn(6, generator=rng, dtype=torch.float64)
    peak = torch.rand(axes, generator=rng, dtype=torch.float64)

    def convex(x: torch.Tensor) -> torch.Tensor:
        flat = x.flatten(1)
        parts = (
            (flat @ slopes + shifts).amax(1),
            (flat - peak).square().sum(1),
            (flat - peak).abs().amax(1),
            flat @ slopes[:, 0],
        )
        return torch.stack(parts, dim=1)[:, None].expand(-1, axes, -1)

    table = HatTable.through(leaves, convex(points(leaves)), 2.0**-50)
    x, leaf = in_leaves(leaves, 6, seed)
    found = table(x)
    assert (found >= convex(x) - 1e-12).all()
    assert torch.allclose(found[..., 3], convex(x)[..., 3], rtol=0, atol=1e-12)
    for level in range(leaves.coarsest, leaves.finest + 1):
        here = leaves.level[leaf] == level
        nodes = lattice(2**level + 1, axes).double() / 2**level
        even = KuhnTable(2**level, convex(nodes.view(-1, axes, 1)))
        assert (found[here] <= even(x[here]) + 1e-12).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 3), st.integers(0, 25), st.integers(0, 2**32 - 1))
def test_nodes_get_their_values(axes: int, cuts: int, seed: int) -> None:
    leaves = cut_at_random(axes, cuts, seed)
    rng = torch.Generator().manual_seed(seed)
    values = torch.randn(len(leaves.keys), axes, 2, generator=rng, dtype=torch.float64)
    table = HatTable.through(leaves, values, 2.0**-50)
    assert torch.allclose(table(points(leaves)), values, rtol=0, atol=1e-12)
    assert float(table.values.abs().max()) <= 2 * float(values.abs().max())


@pytest.mark.parametrize("p", [1.0, 2.0, 8.0, math.inf])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_refined_leaves_fill_the_cube_and_meet_the_target(axes: int, p: float) -> None:
    leaves = refine(told(axes), axes, 1, 0.06, p)
    assert leaves.error(p) <= 0.06
    assert (2.0 ** -(leaves.level * axes).double()).sum() == 1
    x, leaf = in_leaves(leaves, 1, 0)
    low = leaves.corner.double() * 2.0 ** -leaves.level.double()[:, None]
    high = low + 2.0 ** -leaves.level.double()[:, None]
    inside = ((x.flatten(1)[:, None] > low) & (x.flatten(1)[:, None] < high)).all(2)
    assert torch.equal(inside.nonzero()[:, 1], leaf)
    assert leaves.finest > leaves.coarsest


def test_no_leaf_could_be_larger_in_sup_norm() -> None:
    leaves = refine(told(2), 2, 1, 0.02, math.inf)
    parents = (leaves.corner // 2).double() * 2.0 ** (1 - leaves.level.double())[:, None]
    side = 2.0 ** (1 - leaves.level.double())[:, None]
    assert SPIKE.local_curvature is not None
    lower = parents.view(-1, 2, 1)
    bent = SPIKE.local_curvature.on("curvature", lower, (parents + side).view(-1, 2, 1))
    assert (bent * side[:, 0] ** 2 / 4 > 0.02).all()


def test_a_large_exponent_does_not_overflow() -> None:
    leaves = refine(told(2), 2, 1, 0.01, 200.0)
    assert leaves.error(200.0) <= 0.01


def test_many_dimensions_are_refused_at_once() -> None:
    with pytest.raises(CannotApproximate, match="too many corners in 64 dimensions"):
        refine(Smoothness(1.0), 64, 1, 10.0, math.inf)


def test_too_many_boxes_are_refused() -> None:
    with pytest.raises(CannotApproximate, match=r"it needs over .* boxes in 2 dimensions"):
        refine(Smoothness(1e6), 2, 1, 1e-3, math.inf)
    point = aq.Local(lambda lower, upper: 1e30 * (lower == 0).flatten(1).all(1).double())
    with pytest.raises(CannotApproximate, match=r"sides below 2\^-30"):
        refine(Smoothness(1e30, local_lipschitz=point), 2, 1, 1e-3, math.inf)
