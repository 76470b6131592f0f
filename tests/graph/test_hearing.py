"""What reaches one place, against reach followed forward from every token."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import anyseq as aq
from anyseq.graph import hears
from verdicts import naive
from verdicts.designs import designs


@given(designs(mixers=True), st.integers(0, 6), st.integers(0, 5))
@settings(max_examples=150, deadline=None)
def test_as_followed_forward(design: aq.Design, place: int, layers: int) -> None:
    place %= design.size
    design = replace(design, depth=None)
    history = naive.reach(design)
    cycle = design.cycle
    found = hears(cycle, design.size, place, layers)
    assert found.tolist() == history[min(layers, len(history) - 1)][place]
    assert hears(cycle, design.size, place, None).tolist() == history[-1][place]


@given(designs(), st.integers(0, 6), st.lists(st.booleans(), min_size=2, max_size=2))
@settings(max_examples=60, deadline=None)
def test_layers_that_pass_nothing_on(design: aq.Design, place: int, used: list[bool]) -> None:
    """They are as if nobody attended to anybody else."""
    place %= design.size
    cycle = [one if use else None for one, use in zip(design.cycle, used, strict=False)]
    idle = [aq.Blocks(1) if one is None else one for one in cycle]
    for layers in (None, 0, 1, 4):
        assert np.array_equal(
            hears(cycle, design.size, place, layers), hears(idle, design.size, place, layers)
        )


@pytest.mark.parametrize("radius", [1, 7, 100])
def test_windows_of_a_long_sequence(radius: int) -> None:
    pattern = aq.Causal() & aq.Window(radius)
    for layers in (1, 3):
        heard = np.flatnonzero(hears([pattern], 5000, 4999, layers))
        assert heard.tolist() == list(range(4999 - layers * radius, 5000))
    assert hears([pattern], 500, 499, None).all()
