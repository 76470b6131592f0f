import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anyseq.construct.gadgets import clip, clip_layers
from construct.networks import is_literal, run


@pytest.mark.parametrize("features", [1, 2, 3])
def test_values_inside_pass_and_ids_come_back(features: int) -> None:
    layers = clip(features=features, width=4, bound=1.3)
    assert is_literal(layers)
    assert len(layers) == clip_layers(features)
    rng = torch.Generator().manual_seed(0)
    inside = (torch.rand(100, 4, generator=rng, dtype=torch.float64) * 2 - 1) * 1.3
    assert torch.equal(run(layers, inside), inside)
    outside = torch.randn(100, 4, generator=rng, dtype=torch.float64) * 2.0**50
    out = run(layers, outside)[:, :features]
    assert (out.abs() - 1.3).max() <= 1e-12
    assert torch.equal(run(layers, outside)[:, features:], outside[:, features:])


@given(st.floats(-(2.0**52), 2.0**52), st.floats(0.01, 100))
def test_clip_is_clamp_up_to_the_rounding_of_the_id(value: float, bound: float) -> None:
    x = torch.tensor([[value]], dtype=torch.float64)
    out = float(run(clip(features=1, width=1, bound=bound), x))
    assert abs(out) <= bound * (1 + 1e-12)
    assert out == pytest.approx(max(-bound, min(bound, value)), abs=2 * abs(value) * 2.0**-52)
