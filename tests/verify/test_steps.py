"""Layers as one step against the layers themselves; and what may not be one is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import anyseq as aq
from anyseq.construct.gadgets import clear, global_shift, quantise, selective_shifts, value_map
from anyseq.nn import Layers, Stack
from anyseq.verify.mixing import Attend, Sweep
from anyseq.verify.runs import Bumps, Plain, settled, steps_of
from anyseq.verify.verdict import Disagreement


def feedforward(layers: Any) -> dict[str, np.ndarray]:
    return {name: tensor.numpy().copy() for name, tensor in vars(layers).items()}


def applied(net: dict[str, np.ndarray], state: np.ndarray) -> np.ndarray:
    """Layer by layer, in torch's order."""
    x = torch.from_numpy(state.copy())
    for up, bias, down, shift in zip(*(torch.from_numpy(t) for t in net.values()), strict=True):
        x = x + (x @ up.T + bias).relu() @ down.T + shift
    return x.numpy()


def quantiser(cells: int, ramp: float, width: int = 2) -> dict[str, np.ndarray]:
    layers = quantise(features=1, width=width, cells=cells, step=1 / cells, ramp=ramp).feedforward
    return feedforward(layers)


@settings(max_examples=40)
@given(st.sampled_from([1, 2, 8, 32]), st.integers(0, 2**32 - 1))
def test_all_numbers_of_a_cell_become_one(cells: int, seed: int) -> None:
    ramp, rng = 2.0**-20, np.random.default_rng(seed)
    net = quantiser(cells, ramp)
    low = np.stack([np.arange(cells) / cells, rng.random(cells)], axis=1)
    high = low + np.array([1 / cells - ramp, 0.0])
    step, *rest = steps_of(net, 0, cells)
    assert isinstance(step, Bumps if cells > 1 else Plain)
    if isinstance(step, Plain):
        return
    assert not rest
    found = step(low, high)
    assert np.array_equal(found[0], low)
    assert np.array_equal(found[1], low)
    inside = low + np.outer(rng.random(cells), [1 / cells - ramp, 0.0])
    assert np.array_equal(applied(net, inside), low)


@pytest.mark.parametrize("moved", [2.0**-20, 2.0**-30, 0.25])
def test_a_cell_that_reaches_a_ramp_is_refused(moved: float) -> None:
    (step,) = steps_of(quantiser(8, 2.0**-20), 0, 8)
    low = np.stack([np.arange(8) / 8, np.zeros(8)], axis=1)
    with pytest.raises(Disagreement):
        step(low, low + np.array([1 / 8 - 2.0**-20 + moved, 0.0]))


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_one_number_of_a_run_changed_is_felt_or_refused(seed: int) -> None:
    """On the cells that are followed, and anywhere inside them."""
    rng, ramp = np.random.default_rng(seed), 2.0**-20
    net = quantiser(8, ramp)
    name = str(rng.choice(list(net)))
    flat = net[name].reshape(-1)
    at = rng.integers(len(flat))
    changes = [-1.0, 2.0, 1 + 2.0**-40, 0.0]
    flat[at] = flat[at] * rng.choice(changes) + rng.choice([0.0, 1.0, 1e-9, 5e-324])
    low = np.stack([np.arange(8) / 8, np.zeros(8)], axis=1)
    state = low, low + np.array([1 / 8 - ramp, 0.0])
    try:
        for step in steps_of(net, 0, 8):
            state = step(*state)
    except Disagreement:
        return
    inside = low + np.outer(rng.random(8), [1 / 8 - ramp, 0.0])
    found = applied(net, inside)
    assert ((state[0] <= found) & (found <= state[1])).all()


@given(st.integers(0, 2**32 - 1))
def test_values_are_looked_up_as_by_the_layers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ids = 64.0 + rng.permutation(50)[:9]
    targets = rng.normal(size=(9, 1))
    layers = value_map(
        ids=torch.from_numpy(ids), current=torch.from_numpy(ids[:, None]),
        targets=torch.from_numpy(targets), half_width=0.5, digits=(1,),
    ).feedforward  # fmt: skip
    net = feedforward(layers)
    (step,) = steps_of(net, 0, 9)
    state = np.concatenate([ids, [3.0, 500.25]])[:, None]
    if seed % 2:  # above all windows is too far: they would add what rounds
        with pytest.raises(Disagreement):
            step(state, state)
        return
    found = step(state[:-1], state[:-1])[0]
    assert np.array_equal(found, applied(net, state[:-1]))
    assert np.abs(found[:9] - targets).max() <= 2.0**-45


def test_what_is_taken_away_is_gone_whatever_it_is() -> None:
    net = feedforward(clear(1, at=0, hidden=3, width=2))
    step = Plain.of(net, 0)
    low, high = np.array([[-3.0, 1.0]]), np.array([[7.0, 1.0]])
    found = step(low, high)
    assert np.array_equal(found[0], [[0.0, 1.0]])
    assert np.array_equal(found[1], [[0.0, 1.0]])
    for row, shift in ((0, 0.0), (1, 0.0), (1, -2.0)):  # taken by more than it is, or seen besides
        wrong = {name: tensor.copy() for name, tensor in net.items()}
        wrong["up_weight"][0, 2, 0], wrong["up_bias"][0, 2] = 1.0, shift
        wrong["down_weight"][0, row, 2] = 0.5
        with pytest.raises(Disagreement, match="moves"):
            Plain.of(wrong, 0)(low, high)
    net["down_weight"][0, 0, 0] = -1.5
    with pytest.raises(Disagreement, match="moves"):
        Plain.of(net, 0)(low, high)


def test_sums_that_depend_on_their_order_are_refused() -> None:
    weight, shift = np.array([[2.0**60, 1.0, -(2.0**60)]]), np.zeros(1)
    with pytest.raises(Disagreement, match="too large"):
        settled(np.array([[1.0, 1 / 3, 1.0]]), weight, shift)
    settled(np.array([[0.0, 1 / 3, 1.0]]), weight, shift)
    with pytest.raises(Disagreement, match="too large"):
        settled(np.array([[1 / 3, 1e9, 0.0]]), np.array([[1 / 3, 3.0, 0.0]]), shift)


def shifts(tokens: int, windows: list[int], shift: int) -> tuple[Stack, dict[str, np.ndarray]]:
    """A sweep, and the global shift after it."""
    step, gap = 1 / 4, 1024.0
    runs: list[Layers] = [
        selective_shifts(windows=windows, step=step, digits=(1,), shift=shift, gap=gap),
        global_shift(step=step, digits=(1,), shift=shift, gap=gap, lift=0.5),
    ]
    design = aq.Design(tokens, position=aq.NoPosition())
    network = Stack.of(design, runs, in_features=1, out_features=1)
    return network, {name: tensor.numpy() for name, tensor in network.state_dict().items()}


@settings(max_examples=40)
@given(st.integers(2, 4), st.integers(0, 2**32 - 1), st.sampled_from([1, 4, 64]))
def test_a_sweep_is_its_layers(tokens: int, seed: int, shift: int) -> None:
    rng = np.random.default_rng(seed)
    windows = sorted(rng.choice(24, 9, replace=False).tolist())
    network, net = shifts(tokens, windows, shift)
    ids = np.stack([rng.permutation(24)[:tokens] for _ in range(20)])[..., None] / 4
    sweep = Sweep.of(network, net, list(range(9)), 1 / 4)
    assert sweep is not None
    low, high = sweep(ids, ids)
    last = Attend(network, net, 9, 9)
    low, high = last(low, high)
    assert np.array_equal(low, high)
    with torch.no_grad():
        found = network(torch.from_numpy(ids)).numpy() - 0.5
    assert np.array_equal(low, found)


def test_a_sweep_between_numbers_or_too_flat_is_refused() -> None:
    network, net = shifts(2, [1, 2, 3], 4)
    ids = np.array([[[0.25], [0.5]]])
    for name, factor in (("q_weight", 2.0**-9), ("q_bias", 1 + 2.0**-30)):
        wrong = net | {name: net[name] * factor}
        wrong |= {"q_bias": net["q_bias"] * factor} if name == "q_weight" else {}
        sweep = Sweep.of(network, wrong, [0, 1, 2], 1 / 4)
        if sweep is not None:
            with pytest.raises(Disagreement):
                sweep(ids, ids)
    sweep = Sweep.of(network, net, [0, 1, 2], 1 / 4)
    assert sweep is not None
    for wrong_ids in (ids + 1e-9, ids * 2.0**51):
        with pytest.raises(Disagreement):
            sweep(wrong_ids, wrong_ids)


@settings(max_examples=40)
@given(st.integers(2, 6), st.integers(0, 2**32 - 1), st.sampled_from(["softmax", "sparsemax"]))
def test_a_mean_is_within_its_box_in_any_order(tokens: int, seed: int, prob_map: str) -> None:
    rng = np.random.default_rng(seed)
    design = aq.Design(tokens, position=aq.NoPosition(), prob_map=prob_map)
    network, _ = shifts(tokens, [1], 1)
    tensors = dict(network.state_dict())
    for name in ("q_weight", "q_bias", "k_weight", "v_weight", "o_weight"):
        tensors[name] = torch.from_numpy(rng.normal(size=tensors[name].shape))
    network = Stack(design, network.shape, tensors)
    net = {name: tensor.numpy() for name, tensor in tensors.items()}
    state = rng.normal(size=(5, tokens, 1)) * 8
    low, high = Attend(network, net, 0, 0)(state, state)
    assert (low < high).all()
    assert (high - low).max() < 1e-9
    order = rng.permutation(tokens)
    mixer = network[0].mixer
    assert mixer is not None
    with torch.no_grad():
        found = state[:, order] + mixer(torch.from_numpy(state[:, order])).numpy()
    assert ((low[:, order] <= found) & (found <= high[:, order])).all()
    moving = state + np.eye(tokens)[0][:, None]
    with pytest.raises(Disagreement, match="moves"):
        Attend(network, net, 0, 0)(state, moving)
