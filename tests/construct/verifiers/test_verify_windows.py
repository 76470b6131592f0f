"""Windows are read as they were made, and pairs that share one are counted."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anyseq.construct.gadgets import Room, windows
from anyseq.construct.verifiers.verify_lost import cases_of, lost_pairs
from anyseq.construct.verifiers.verify_terms import Disagreement
from anyseq.construct.verifiers.verify_windows import FeedForwardReader, Windows
from construct.networks import run

ROOM = Room(width=6, hidden=7, nodes_at=3, chunk=3)


def read(net: dict[str, np.ndarray], count: int, gate: int | None = None) -> Windows:
    """Windows of feature 1 with values for feature 0; nothing else may be in the layers."""
    reader = FeedForwardReader(net, ROOM.nodes_at)
    found = reader.windows(count, "windows", at=1, into=0, gate=gate)
    assert reader.row == len(net["up_bias"])
    return found


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
    return net, read(net, count, gate), run(layers, state)


@given(st.integers(1, 8), st.integers(0, 1000), st.sampled_from([None, 2]))
def test_what_is_read_is_what_is_computed(count: int, seed: int, gate: int | None) -> None:
    _, found, after = made(count, seed, gate)
    found.check_apart()
    assert found.ramp == 1 / 8
    t, out, most = after[:, 1].numpy(), after[:, 0].numpy(), 1.0 if gate is None else 0.75
    inside = (found.low <= t[:, None]) & (t[:, None] <= found.high)
    beyond = np.maximum(found.low - t[:, None], t[:, None] - found.high) >= found.ramp
    assert np.array_equal(out[inside.any(1)], most * (inside @ found.values[:, 0])[inside.any(1)])
    assert not out[beyond.all(1)].any()
    assert np.abs(out).max() <= np.abs(found.values).max()


def test_keys_are_found_where_they_are_safe() -> None:
    values = np.zeros((2, 1))
    found = Windows(np.array([0.0, 4.0]), np.array([1.0, 5.0]), 4.0, values)
    place, inside = found.find(np.array([[0.5, 4.25]]))
    assert place.tolist() == [[0, 1]]
    assert inside == 0.25
    for key in (-1.0, 0.1, 1.0, 2.0, 4.95, 9.0, float("nan")):
        with pytest.raises(Disagreement, match="safely inside"):
            found.find(np.array([[0.5, key]]))
    with pytest.raises(Disagreement, match="overlap"):
        Windows(found.low, found.high, 0.5, values).check_apart()


@pytest.mark.parametrize("gate", [None, 2])
@pytest.mark.parametrize("tensor", ["up_weight", "down_weight", "down_bias"])
def test_nothing_else_may_be_in_windows(tensor: str, gate: int | None) -> None:
    net, _, _ = made(4, 0, gate)
    for place in np.ndindex(net[tensor].shape):
        wrong = {name: part.copy() for name, part in net.items()}
        wrong[tensor][place] += 0.5
        layer, feature, unit = (*place, 0)[:3]
        used = unit < (3 if layer < 2 else 1)
        if not (tensor == "down_weight" and layer % 2 and feature == 0 and used):
            with pytest.raises(Disagreement):  # it is not only another value
                read(wrong, 4, gate)


@pytest.mark.parametrize("count", [0, 2, 5, 6])
def test_neither_more_nor_fewer_windows_are_read(count: int) -> None:
    net, _, _ = made(4, 0)
    with pytest.raises(Disagreement):
        read(net, count)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("what", ["low", "slope", "values"])
def test_windows_are_finite(what: str, wrong: float) -> None:
    net, _, _ = made(1, 0)
    if what == "low":
        net["up_bias"][0, 0] = wrong
    elif what == "slope":
        net["down_weight"][0, 3, :2] = wrong
    else:
        net["down_weight"][1, 0, 0] = wrong
    with pytest.raises(Disagreement):
        read(net, 1)


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
