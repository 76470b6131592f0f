"""Windows, fill and clear: exact where they say so."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anyseq.construct.gadgets import Room, clear, fill, windows
from anyseq.nn import Layers
from construct.networks import run

T, GATE, OUT = 0, 1, 2


def room(chunk: int) -> Room:
    return Room(width=4 + chunk, hidden=2 * chunk, nodes_at=4, chunk=chunk)


def at(t: torch.Tensor, width: int, gate: float = 0.0) -> torch.Tensor:
    z = torch.zeros(len(t), width, dtype=torch.float64)
    z[:, T], z[:, GATE] = t, gate
    return z


@pytest.mark.parametrize("chunk", [1, 2, 3, 8])
@pytest.mark.parametrize("gate", [None, 0.0, 0.3, 1.0])
def test_exactly_the_value_inside_and_exactly_nothing_outside(
    chunk: int, gate: float | None
) -> None:
    keys = torch.tensor([3, 2**50 + 1, 4, 17, -5], dtype=torch.float64)
    values = torch.tensor([[0.1, -7], [1e9, 3], [1 / 3, 0], [5, 1], [2, 2]], dtype=torch.float64)
    layers = windows(
        keys - 0.25,
        keys + 0.25,
        values,
        slope=2.0,
        at=T,
        into=OUT,
        room=room(chunk),
        gate=None if gate is None else GATE,
    )
    assert len(layers) == room(chunk).layers(5)
    t = torch.cat([keys, keys - 0.25, keys + 0.25, torch.tensor([2.25, 100, 5, -1e12])])
    expected = torch.cat([values, values, values, torch.zeros(4, 2)]).double()
    z = at(t, room(chunk).width, gate or 0.0)
    out = run(layers, z)
    assert torch.equal(out[:, OUT : OUT + 2], expected * (1.0 if gate is None else gate))
    assert torch.equal(out[:, :OUT], z[:, :OUT])
    assert (out[:, 4:] == 0).all()


@given(st.floats(0, 1), st.integers(2, 64))
def test_narrow_ramps_count_cells(x: float, steps: int) -> None:
    ends = torch.arange(1, steps).double() / steps
    layers = windows(
        ends,
        torch.full_like(ends, 2.0),
        torch.ones(len(ends), 1, dtype=torch.float64),
        slope=2.0**52,
        at=T,
        into=OUT,
        room=room(4),
    )
    found = float(run(layers, at(torch.tensor([x]), room(4).width))[0, OUT])
    below = int((ends <= x).sum())
    near = float((ends - x)[ends > x].min()) if below < len(ends) else 1.0
    assert found == below if near >= 2.0**-52 else below <= found <= below + 1


@given(st.lists(st.floats(0, 3), min_size=1, max_size=6))
def test_weights_fill_up_to_one(badness: list[float]) -> None:
    count = len(badness)
    layers = fill(count, at=1, rest_at=0, hidden=max(3, 2 * count), width=1 + count)
    z = torch.tensor([[1.0, *badness]], dtype=torch.float64)
    weights = run(layers, z)[0, 1:].tolist()
    left = 1.0
    for bad, weight in zip(badness, weights, strict=True):
        expected = min(left, max(0.0, 1 - bad))
        assert weight == pytest.approx(expected, abs=1e-15)
        assert weight == 0.0 or bad < 1
        left -= expected
    if 0.0 in badness:
        assert sum(weights) == pytest.approx(1.0, abs=1e-15)


def test_clear_leaves_an_exact_zero() -> None:
    z = torch.randn(20, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    out = run(Layers(feedforward=clear(2, at=3, hidden=5, width=6)), z)
    assert (out[:, 3:5] == 0).all()
    assert torch.equal(out[:, [0, 1, 2, 5]], z[:, [0, 1, 2, 5]])
