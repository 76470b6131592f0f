import torch
from hypothesis import given
from hypothesis import strategies as st

from anyseq.construct.gadgets import banish, banish_ramp, narrowest_ramp, quantise
from construct.networks import is_literal, run


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 99))
def test_entries_become_the_lower_end_of_their_cell_exactly(k: int, n: int, seed: int) -> None:
    step, cells = 2.0**-k, n * 2**k
    ramp = narrowest_ramp(n)
    layers = quantise(features=2, width=3, cells=cells, step=step, ramp=ramp)
    assert is_literal(layers)
    assert len(layers) == 2 * cells
    rng = torch.Generator().manual_seed(seed)
    z = torch.rand(200, 3, generator=rng, dtype=torch.float64) * n
    z[:50, :2] = (z[:50, :2] / step).floor() * step  # on the grid already
    z[50:100, :2] = (z[50:100, :2] / step).floor() * step + step - ramp  # the last good point
    out = run(layers, z)
    low = (z / step).floor() * step
    good = z - low <= step - ramp
    assert good[:, :2].double().mean() > 0.9
    assert torch.equal(out[:, :2][good[:, :2]], low[:, :2][good[:, :2]])
    assert torch.equal(out[:, 2], z[:, 2])


def test_on_a_ramp_the_entry_rises_to_the_next_cell() -> None:
    step, ramp = 1 / 4, 2.0**-20
    layers = quantise(features=1, width=1, cells=4, step=step, ramp=ramp)
    z = torch.tensor([[0.25 - ramp / 2]], dtype=torch.float64)
    assert 0.1 < float(run(layers, z)) < 0.15


def test_the_ramp_is_about_as_narrow_as_it_may_be() -> None:
    """A much narrower one is not exact any more."""
    step, cells = 1 / 8, 32
    z = torch.rand(500, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 4
    for ramp, exact in ((narrowest_ramp(4), True), (narrowest_ramp(4) / 2**8, False)):
        out = run(quantise(features=1, width=1, cells=cells, step=step, ramp=ramp), z)
        assert torch.equal(out, (z / step).floor() * step) == exact


def test_entries_outside_the_domain_are_banished() -> None:
    depth = 2.0**12
    ramp = banish_ramp(depth)
    assert ramp < 1e-10
    layers = banish(features=2, width=2, depth=depth)
    assert is_literal(layers)
    inside = torch.rand(100, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    inside[0], inside[1] = 0.0, 1 - ramp
    assert torch.equal(run(layers, inside), inside)
    outside = torch.tensor([[-ramp, 1.0], [-1e-9, 1 + 1e-9], [-2.0, 2.0]], dtype=torch.float64)
    torch.testing.assert_close(
        run(layers, outside), torch.full_like(outside, -depth), rtol=0, atol=0.25
    )
