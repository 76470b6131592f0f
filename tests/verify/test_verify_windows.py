"""Windows are read as they were made, and pairs that share one are counted."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anyseq.construct.gadgets import Room, windows
from anyseq.verify.lost import cases_of, lost_pairs
from anyseq.verify.verdict import Disagreement
from anyseq.verify.windows import Windows, read_windows
from construct.networks import run

ROOM = Room(width=6, hidden=7, nodes_at=3, chunk=3)


def read(net: dict[str, np.ndarray]) -> Windows | None:
    """The windows that these layers are, and nothing else."""
    found, end = read_windows(net, 0, len(net["up_bias"]))
    return found[0] if len(found) == 1 and end == len(net["up_bias"]) else None


def made(
    count: int, seed: int, gate: int | None = None
) -> tuple[dict[str, np.ndarray], Windows, torch.Tensor]:
    """The weights of some windows of feature 1, what is read from them, and what they make of
    numbers anywhere and at their ends, with feature 2 at 3/4."""
    rng = torch.Generator().manual_seed(seed)
    low = torch.randperm(2 * count, generator=rng)[:count].double()
    high = low + torch.rand(count, generator=rng, dtype=torch.float64) / 4
    values = torch.randn(count, 1, generator=rng, dtype=torch.float64)
    layers = windows(low, high, values, slope=8.0, at=1, into=0, room=ROOM, gate=gate)
    feedforward = layers.feedforward
    assert feedforward is not None
    net = {name: tensor.numpy() for name, tensor in vars(feedforward).items()}
    t = torch.cat([2 * count * torch.rand(50, generator=rng, dtype=torch.float64), low, high])
    state = torch.zeros(len(t), ROOM.width, dtype=torch.float64)
    state[:, 1], state[:, 2] = t, 0.75
    found = read(net)
    assert found is not None
    assert (found.at, found.gate, found.into, len(found.low)) == (1, gate, [0], count)
    return net, found, run(layers, state)


@given(st.integers(1, 8), st.integers(0, 1000), st.sampled_from([None, 2]))
def test_what_is_read_is_what_is_computed(count: int, seed: int, gate: int | None) -> None:
    _, found, after = made(count, seed, gate)
    assert found.apart
    assert found.ramp == 1 / 8
    t, out, most = after[:, 1].numpy(), after[:, 0].numpy(), 1.0 if gate is None else 0.75
    inside = (found.low <= t[:, None]) & (t[:, None] <= found.high)
    beyond = np.maximum(found.low - t[:, None], t[:, None] - found.high) >= found.ramp
    assert np.array_equal(out[inside.any(1)], most * (inside @ found.values[:, 0])[inside.any(1)])
    assert not out[beyond.all(1)].any()
    assert np.abs(out).max() <= np.abs(found.values).max()


def look(found: Windows, low: float, high: float) -> int:
    return int(found.find(np.array([low]), np.array([high]))[0])


def test_numbers_are_found_where_they_are_on_no_ramp() -> None:
    found = Windows(
        1, None, 4.0, np.array([0.0, 4.0]), np.array([1.0, 5.0]), np.eye(2), np.zeros(0)
    )
    inside = {(0.5, 0.5): 0, (0.0, 1.0): 0, (4.25, 4.5): 1, (2.0, 3.0): -1, (5.25, 9.0): -1}
    for (low, high), wanted in inside.items():
        assert look(found, low, high) == wanted
    for low, high in [(-0.1, 0.5), (0.9, 1.1), (1.1, 1.1), (0.5, 4.5), (-1.0, 9.0), (3.8, 3.8)]:
        with pytest.raises(Disagreement, match="on a ramp"):
            look(found, low, high)
    assert found.apart
    assert not Windows(1, None, 0.5, found.low, found.high, found.values, found.nodes).apart


@pytest.mark.parametrize("gate", [None, 2])
@pytest.mark.parametrize("tensor", ["up_weight", "down_weight", "down_bias"])
def test_nothing_else_may_be_in_windows(tensor: str, gate: int | None) -> None:
    """But for units that nothing reads."""
    net, found, _ = made(4, 0, gate)
    for place in np.ndindex(net[tensor].shape):
        wrong = {name: part.copy() for name, part in net.items()}
        wrong[tensor][place] += 0.5
        layer, feature, unit = (*place, 0)[:3]
        other = read(wrong)
        if tensor == "up_weight" and not net["down_weight"][layer, :, feature].any():
            assert other is not None
            assert np.array_equal(other.values, found.values)
        elif not (tensor == "down_weight" and layer % 2 and feature in (0, 1, 2) and unit < 3):
            assert other is None or other.into != found.into


def test_windows_do_not_change_what_they_look_up() -> None:
    """A number that the first of them moves would meet others than it seems to."""
    net, _, _ = made(4, 0)
    net["down_weight"][1, 1, 0] = 4.0
    found, end = read_windows(net, 0, len(net["up_bias"]))
    assert (found, end) == ([], 0)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("what", ["low", "slope"])
def test_windows_are_finite(what: str, wrong: float) -> None:
    net, _, _ = made(1, 0)
    if what == "low":
        net["up_bias"][0, 0] = wrong
    else:
        net["down_weight"][0, 3, :2] = wrong
    with np.errstate(invalid="ignore"):
        found = read(net)
        if found is not None:
            with pytest.raises(Disagreement):
                look(found, 0.0, 9.0)


def brute_force(groups: np.ndarray, cases: np.ndarray) -> int:
    """The fewest pairs that can be lost."""
    lost = 0
    for group in np.unique(groups):
        _, counts = np.unique(cases[groups == group], return_counts=True)
        lost += int(counts.sum() - counts.max())
    return lost


@given(st.integers(0, 10**6), st.sampled_from(["all", "causal", "equivariant"]))
def test_no_fewer_pairs_can_be_lost(seed: int, kind: str) -> None:
    sequences = np.indices((3, 3)).reshape(2, -1).T
    cases = cases_of(sequences, 3, kind)
    groups = np.random.default_rng(seed).integers(0, 6, cases.shape)
    lost = lost_pairs(groups, cases)
    assert lost.sum() == brute_force(groups, cases)
    for group in np.unique(groups):  # one case is served
        assert len(np.unique(cases[(groups == group) & ~lost])) == 1


def test_cases_are_what_functions_of_a_kind_depend_on() -> None:
    sequences = np.array([[0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 0]])
    every = cases_of(sequences, 2, "all")
    assert len(np.unique(every)) == 12
    causal = cases_of(sequences, 2, "causal")
    assert len(set(causal[:3, 0])) == 1  # the first token is cell 0
    assert causal[1, 1] == causal[2, 1] != causal[0, 1]
    assert len(np.unique(causal)) == 2 + 3 + 4
    even = cases_of(sequences, 2, "equivariant")
    assert even[0].tolist() == [even[3, 1], even[3, 2], even[3, 0]]
    assert len(np.unique(even)) == 4
    with pytest.raises(Disagreement, match="kind 'any'"):
        cases_of(sequences, 2, "any")
