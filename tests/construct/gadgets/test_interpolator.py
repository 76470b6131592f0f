import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anyseq.construct.gadgets import Wiring, interpolate, interpolator_layers, tournament
from anyseq.construct.lattice import lattice
from construct.networks import run


def by_the_formula(x: torch.Tensor, values: torch.Tensor, steps: int) -> torch.Tensor:
    """Σ_g hat_g(x) f(g), every hat written out."""
    nodes = lattice(steps + 1, x.shape[1]).double()
    t = x[:, None] * steps - nodes
    hats = torch.relu(1 - t.amax(-1).clamp(min=0) + t.amin(-1).clamp(max=0))
    return hats @ values


def wiring(axes: int, steps: int, chunk: int, values: int) -> Wiring:
    scratch = tournament(axes).scratch
    return Wiring(
        axes=axes,
        steps=steps,
        chunk=chunk,
        hidden=max(4 * chunk, *map(len, tournament(axes).rounds), 1),
        width=axes + values + scratch + chunk,
        slots_at=0,
        values_at=axes,
        scratch_at=axes + values,
        nodes_at=axes + values + scratch,
    )


@given(
    st.sampled_from([(1, 1), (1, 8), (2, 4), (3, 2), (3, 4), (4, 2), (5, 1)]),
    st.sampled_from([1, 2, 4]),
    st.integers(0, 50),
)
def test_the_layers_are_the_formula(sizes: tuple[int, int], chunk: int, seed: int) -> None:
    axes, steps = sizes
    rng = torch.Generator().manual_seed(seed)
    values = torch.randn((steps + 1) ** axes, 2, generator=rng, dtype=torch.float64)
    w = wiring(axes, steps, chunk, 2)
    layers = interpolate(values, w)
    assert len(layers) == interpolator_layers(w)
    x = torch.rand(40, axes, generator=rng, dtype=torch.float64)
    x[:10] = (x[:10] * steps).round() / steps  # nodes
    x[10:20] = x[10:20, :1]  # the diagonal: many ties
    out = run(layers, torch.nn.functional.pad(x, (0, w.width - axes)))
    torch.testing.assert_close(
        out[:, axes : axes + 2], by_the_formula(x, values, steps), rtol=0, atol=1e-13
    )
    assert (out[:, axes + 2 :] == 0).all(), "scratch is cleared exactly"


@pytest.mark.parametrize("axes", [1, 2, 3, 4])
def test_hats_are_a_partition_of_unity(axes: int) -> None:
    x = torch.rand(200, axes, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ones = torch.ones(5**axes, 1, dtype=torch.float64)
    torch.testing.assert_close(by_the_formula(x, ones, 4), torch.ones(200, 1).double())
