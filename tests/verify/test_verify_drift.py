"""What float64 may add to feed-forward layers, against exact fractions; and planted layers that
compute the right function, but for rounding."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import anyseq as aq
from anyseq.construct.request.functions import FUNCTIONS, gaussian
from anyseq.verify.drift import Drift
from construct.forgery import failed, forge, network_with

exactly: Any = np.vectorize(Fraction, otypes=[object])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(1, 6), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_no_feature_is_further_off(width: int, hidden: int, depth: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    state = rng.random((5, width))
    exact, drift = exactly(state), Drift(rng.random(width) < 0.3)
    for _ in range(depth):
        up, up_bias = rng.integers(-9, 10, (hidden, width)) * 1.0, rng.integers(-3, 4, hidden) * 1.0
        down, down_bias = rng.normal(size=(width, hidden)), rng.normal(size=width)
        up[:, drift.values] = 0.0
        up[:, 0] *= rng.random() < 0.5
        pre = state @ up.T + up_bias
        drift.layer(up, up_bias, down, down_bias, state, pre)
        state = state + np.maximum(pre, 0.0) @ down.T + down_bias
        inside = exact @ exactly(up).T + exactly(up_bias)
        hidden_exactly = inside * (inside > 0)
        exact = exact + hidden_exactly @ exactly(down).T + exactly(down_bias)
        off = np.abs((exactly(state) - exact).astype(float)).max(0)
        assert (off <= drift.off).all()


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_what_rounds_before_a_relu_counts(seed: int) -> None:
    """Large products that cancel: they round by far more than what is left of them, and is added
    up after the ReLU."""
    rng = np.random.default_rng(seed)
    state = np.zeros((40, 3))
    state[:, 0] = 1 + rng.random(40)
    state[:, 1] = state[:, 0] - 2.0**-24 * rng.random(40)
    size = 1e9 * (1 + rng.random())
    up, down = np.array([[size, -size, 0.0]]), np.array([[0.0], [0.0], [1.0]])
    drift, nothing = Drift(np.zeros(3, dtype=bool)), np.zeros(3)
    pre = state @ up.T
    drift.layer(up, np.zeros(1), down, nothing, state, pre)
    after = state + np.maximum(pre, 0.0) @ down.T
    exact = exactly(state) @ exactly(up).T
    off = np.abs((exactly(after[:, 2:]) - exact * (exact > 0)).astype(float)).max()
    assert off > 100 * 2.0**-53 * after[:, 2].max()
    assert off <= drift.off[2]


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_what_rounds_when_a_little_is_added_to_much_counts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    state = np.stack([2.0**30 * (1 + rng.random(40)), rng.random(40) / 8], axis=1)
    up, down = np.array([[0.0, 1.0]]), np.array([[1.0], [0.0]])
    drift = Drift(np.zeros(2, dtype=bool))
    drift.layer(up, np.zeros(1), down, np.zeros(2), state, state @ up.T)
    after = state + state[:, 1:] @ down.T
    exact = exactly(state[:, 0]) + exactly(state[:, 1])
    off = np.abs((exactly(after[:, 0]) - exact).astype(float)).max()
    assert 2.0**-26 < off <= drift.off[0]


def test_what_is_off_at_the_start_goes_through_the_weights() -> None:
    """ReLU(-4 t) is 0 for t = 0; if t is off, so is it, and what it is added to."""
    start = np.array([2.0**-40, 0.0])
    drift, state = Drift(np.zeros(2, dtype=bool), start), np.zeros((1, 2))
    assert drift.off.tolist() == start.tolist()
    up, down = np.array([[-4.0, 0.0]]), np.array([[0.0], [8.0]])
    drift.layer(up, np.zeros(1), down, np.zeros(2), state, state @ up.T)
    assert drift.off[0] == 2.0**-40
    assert 2.0**-35 <= drift.off[1] <= 2.0**-35 * (1 + 1e-6)


def test_what_was_rounded_at_the_nodes_counts_twice() -> None:
    state = np.array([[1 / 3, 0.0]])
    up, down = np.array([[3.0, 0.0]]), np.array([[0.0], [1.0]])
    off = []
    for rounded in (False, True):
        drift = Drift(np.zeros(2, dtype=bool))
        drift.layer(up, np.zeros(1), down, np.zeros(2), state, state @ up.T, rounded=rounded)
        off.append(drift.off[1])
    assert off[1] == pytest.approx(2 * off[0])
    assert off[0] > 0


def test_a_unit_that_bends_is_off_by_that_much() -> None:
    drift, nothing = Drift(np.zeros(2, dtype=bool)), np.zeros(2)
    up, down = np.array([[1.0, 0.0]]), np.array([[0.0], [-4.0]])
    state = np.array([[-0.25, 0.0], [0.75, 0.0]])
    drift.layer(up, np.zeros(1), down, nothing, state, state @ up.T, bent=np.array([0.25]))
    assert 1.0 <= drift.off[1] <= 1.0 + 1e-12


def test_what_leaves_takes_along_what_it_was_off_by() -> None:
    """However often it is filled again: nothing adds up."""
    drift, state = Drift(np.zeros(2, dtype=bool)), np.array([[1 / 3, 0.0]])
    up = np.array([[3.0, 0.0], [0.0, 1.0]])
    down = np.array([[0.0, 0.0], [1.0, -1.0]])
    seen = []
    for _ in range(50):
        pre = state @ up.T + [0.0, 1.0]
        drift.layer(up, np.array([0.0, 1.0]), down, np.array([0.0, 1.0]), state, pre)
        state = state + np.maximum(pre, 0.0) @ down.T + [0.0, 1.0]
        seen.append(drift.off[1])
    assert max(seen[1:]) <= 1.2 * min(seen[1:])


def _bent(x: torch.Tensor) -> torch.Tensor:
    return x.square()


SPIKE: Any = gaussian("spike", "", 2000.0, 1 / 3)
PLANTED = {
    "even": aq.approximate(_bent, aq.Design(1), features=1, tol=1e-3, lipschitz=2.0),
    "even, 2 tokens": aq.approximate(
        FUNCTIONS["plus-mean"], aq.Design(2), features=1, tol=0.05, lipschitz=2.0
    ),
    "adaptive": aq.approximate(
        SPIKE, aq.Design(1), features=1, tol=0.05, method="gather",
        lipschitz=SPIKE.local_lipschitz, curvature=SPIKE.local_curvature,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_large_weights_that_cancel_are_found(name: str) -> None:
    """C ReLU(3t - 3k) - 3C ReLU(t - k) is 0; in float64 it is not. Hidden layers are made wider for
    it, and every hash fits."""
    result = PLANTED[name]
    shape = replace(result.size, hidden=result.size.hidden + 2)
    old, m = result.model.state_dict(), round(1 / result.facts.step)
    slot, value = result.facts.stages[0].reading.first, result.facts.stages[1].reading.first
    weights = {
        "up_weight": torch.nn.functional.pad(old["up_weight"], (0, 0, 0, 2)),
        "up_bias": torch.nn.functional.pad(old["up_bias"], (0, 2)),
        "down_weight": torch.nn.functional.pad(old["down_weight"], (0, 2)),
    }
    assert not failed(forge(result, weights=weights, shape=shape))
    layer, big = -2, 2.0**34
    weights["up_weight"][layer, -2:, slot] = torch.tensor([3.0 * m, m], dtype=torch.float64)
    weights["up_bias"][layer, -2:] = torch.tensor([-3.0 * (m - 1), 1.0 - m], dtype=torch.float64)
    weights["down_weight"][layer, value, -2:] = torch.tensor([big, -3 * big], dtype=torch.float64)
    rng = torch.Generator().manual_seed(0)
    x = torch.rand(4000, result.size.tokens, 1, generator=rng, dtype=torch.float64)
    x[:, 0] = 1 - x[:, 0] / m
    with torch.no_grad():
        off = network_with(result, weights, shape=shape)(x) - result.model(x)
    assert result.error.upper is not None
    assert off.abs().max() > 1e-7
    assert failed(forge(result, weights=weights, shape=shape)).keys() & {"error", "network"}
