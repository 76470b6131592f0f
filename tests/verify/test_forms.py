"""Affine forms of tokens against the layers at inputs, in exact fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyseq.verify.floats import exact, units
from anyseq.verify.forms import Forms
from anyseq.verify.verdict import Disagreement

exactly: Any = np.vectorize(Fraction, otypes=[object])


def random_net(rng: np.random.Generator, width: int, hidden: int) -> dict[str, np.ndarray]:
    whole = rng.integers(-3, 4, (3, hidden, width)) * rng.choice([1.0, 0.5, 1 / 3], (3, hidden, 1))
    down = rng.integers(-2, 3, (3, width, hidden)) * rng.choice([1.0, 0.25], (3, width, 1))
    return {
        "up_weight": whole,
        "up_bias": rng.integers(-20, 21, (3, hidden)) * 1.0,
        "down_weight": down,
        "down_bias": rng.integers(-2, 3, (3, width)) * 1.0,
    }


@settings(max_examples=80)
@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_float64_is_no_further_from_the_form_than_it_says(
    width: int, hidden: int, seed: int
) -> None:
    """And the form is that of the layers, wherever one is found."""
    rng = np.random.default_rng(seed)
    net, axes = random_net(rng, width, hidden), 2
    form = np.zeros((1, width, 1 + axes))
    form[0, 0, 1] = form[0, -1, 2] = 1.0
    tokens = Forms(form, np.zeros((1, width)))
    x = rng.random((20, axes))
    state = np.zeros((20, width))
    state[:, 0] += x[:, 0]
    state[:, -1] += x[:, 1]
    if width == 1:
        tokens.off[:] = 2.0**-52
    for row in range(3):
        up, bias, down, shift = (net[name][row] for name in net)
        try:
            more = tokens.fed(net, row)
        except Disagreement:
            return
        if more is None:
            return
        tokens = more
        state = state + np.maximum(state @ up.T + bias, 0.0) @ down.T + shift
        wanted = exactly(tokens.form[0, :, 0])
        wanted = wanted + exactly(x) @ exactly(tokens.form[0, :, 1:].T)
        apart = np.abs((exactly(state) - wanted).astype(float)).max(0)
        assert (apart <= tokens.off[0]).all()


def test_what_is_taken_away_leaves_its_lower_end_to_the_bit() -> None:
    """t - ReLU(t - a) for t = a + x/2 and a = 1, which is within a factor of 2."""
    net = {
        "up_weight": np.array([[[1.0, 0.0]]]),
        "up_bias": np.array([[-1.0]]),
        "down_weight": np.array([[[-1.0], [0.0]]]),
        "down_bias": np.zeros((1, 2)),
    }
    form = np.array([[[1.0, 0.5], [0.0, 1.0]]])
    for high, off in ((0.5, 0.0), (3.0, 1.0)):
        form[0, 0, 1] = high
        found = Forms(form, np.zeros((1, 2))).fed(net, 0)
        assert found is not None
        assert found.form[0, 0].tolist() == [1.0, 0.0]
        assert bool(found.off[0, 0] > 0) is bool(off)


@given(st.integers(0, 2**32 - 1))
def test_sums_that_are_called_exact_are(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-9, 10, (4, 3)) * 2.0 ** rng.integers(-30, 30, 3)
    weight = rng.integers(-9, 10, (2, 3)) * 2.0 ** rng.integers(-30, 30, 3)
    shift = rng.integers(-9, 10, 2) * 1.0
    wanted = exactly(x) @ exactly(weight).T + exactly(shift)
    try:
        found = exact(x, weight, shift)
    except Disagreement:
        return
    assert (exactly(found) == wanted).all()


def test_units_are_those_of_columns() -> None:
    assert units(np.array([[0.75, 8.0, 0.0], [3.0, 12.0, 0.0]])).tolist() == [0.25, 4.0, 2.0**400]
    with pytest.raises(Disagreement):
        exact(np.array([[1.0, 2.0**-60]]), np.ones((1, 2)))
