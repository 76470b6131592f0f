import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anyseq.construct.counting.lattice import lattice
from anyseq.construct.gadgets import Wiring, interpolate, least_hidden, mixed_differences, summable
from construct.networks import run

SIZES = [(1, 1), (1, 8), (2, 1), (2, 4), (3, 2), (3, 4), (4, 2), (5, 1)]


def by_hats(x: torch.Tensor, values: torch.Tensor, steps: int) -> torch.Tensor:
    """Σ_g hat_g(x) f(g), every hat written out: 1 at g, 0 at all other nodes, linear between."""
    nodes = lattice(steps + 1, x.shape[1]).double()
    t = x[:, None] * steps - nodes
    hats = torch.relu(1 - t.amax(-1).clamp(min=0) + t.amin(-1).clamp(max=0))
    return hats @ values


def wiring(axes: int, steps: int, cuts: int, values: int) -> Wiring:
    return Wiring(
        axes=axes,
        steps=steps,
        cuts=cuts,
        hidden=least_hidden(axes, steps, cuts),
        width=axes + values + axes - 1,
        slots_at=0,
        values_at=axes,
        scratch=tuple(range(axes + values, axes + values + axes - 1)),
    )


def random_values(axes: int, steps: int, seed: int) -> torch.Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn((steps + 1) ** axes, 2, generator=rng, dtype=torch.float64)


@given(st.sampled_from(SIZES), st.sampled_from([1, 2, 3]), st.integers(0, 50))
def test_the_layers_are_the_formula(sizes: tuple[int, int], cuts: int, seed: int) -> None:
    axes, steps = sizes
    values, w = random_values(axes, steps, seed), wiring(axes, steps, cuts, 2)
    layers = interpolate(values, w)
    assert len(layers) == w.layers
    rng = torch.Generator().manual_seed(seed)
    x = torch.rand(40, axes, generator=rng, dtype=torch.float64)
    x[:10] = (x[:10] * steps).round() / steps  # nodes
    x[10:20] = x[10:20, :1]  # the diagonal: many ties
    out = run(layers, torch.nn.functional.pad(x, (0, w.width - axes)))
    torch.testing.assert_close(
        out[:, axes : axes + 2], by_hats(x, values, steps), rtol=0, atol=1e-12
    )
    torch.testing.assert_close(out[:, :axes], x, rtol=0, atol=0)
    assert (out[:, axes + 2 : axes + 4] == 0).all(), "the first two of scratch are cleared exactly"
    assert (out[:, axes + 4 :].abs() <= 1e-15).all()


@given(st.sampled_from(SIZES), st.sampled_from([1, 2]), st.integers(0, 50))
def test_at_nodes_nothing_rounds(sizes: tuple[int, int], cuts: int, seed: int) -> None:
    axes, steps = sizes
    found = random_values(axes, steps, seed)
    values, w = summable(found, axes), wiring(axes, steps, cuts, 2)
    assert float((values - found).abs().max()) <= 2.0**-50 * len(values) * 2**axes * (steps + 1) * 4
    x = lattice(steps + 1, axes).double() / steps
    out = run(interpolate(values, w), torch.nn.functional.pad(x, (0, w.width - axes)))
    assert torch.equal(out[:, axes : axes + 2], values)
    assert not out[:, axes + 2 :].any()


@pytest.mark.parametrize("scale", [0.0, 2.0**-1060, 2.0**-900, 1.0, 2.0**500])
def test_summable_keeps_what_is_simple(scale: float) -> None:
    """Whole multiples stay as they are, whatever their size."""
    values = torch.arange(25, dtype=torch.float64)[:, None] * scale
    assert torch.equal(summable(values, 2), values if scale != 2.0**-1060 else 0 * values)


@pytest.mark.parametrize(("axes", "steps"), SIZES)
def test_mixed_differences_add_up_again(axes: int, steps: int) -> None:
    values = random_values(axes, steps, 0)
    grid = mixed_differences(values, axes).view(*[steps + 1] * axes, 2)
    for axis in range(axes):
        grid = grid.cumsum(axis)
    torch.testing.assert_close(grid.reshape(-1, 2), values, rtol=0, atol=1e-12)
