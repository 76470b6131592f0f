"""What vertices see, how many keys that is, and how many are kept."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given

import anyseq as aq
from anyseq.graph import arrivals, connections_of, keys_attended, keys_kept, reach
from anyseq.graph.visible import degrees, visible
from verdicts.designs import PATTERNS, designs

CAUSAL = aq.Causal()
SIMPLE = [
    *(head for pattern in PATTERNS for head in pattern.heads()),
    aq.Window(3, 1), aq.Window(0), ~aq.Full(), aq.Dilated(2, 3), CAUSAL & ~aq.Window(0),
    CAUSAL & (aq.Window(2) | aq.Global((0,))), CAUSAL & aq.Strided(2),
]  # fmt: skip


@pytest.mark.parametrize("pattern", SIMPLE, ids=str)
@pytest.mark.parametrize("size", [1, 2, 7, 40])
@pytest.mark.parametrize("runs", [0, 1, 32])
def test_what_is_seen(
    pattern: aq.Pattern, size: int, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By offsets and edge by edge: the same."""
    monkeypatch.setattr("anyseq.graph.visible._MOST_RUNS", runs)
    mask = pattern.mask(size).numpy()
    seen = visible(pattern, size)
    values = np.random.default_rng(0).random((size, 3))
    np.testing.assert_allclose(seen.sums(values), mask @ values, rtol=1e-12)
    assert (degrees(seen, size) == mask.sum(1)).all()
    last = [max(np.flatnonzero(mask[:, j]), default=-1) for j in range(size)]
    assert seen.last_seer().tolist() == last
    assert seen.looks_ahead() == bool(np.triu(mask, 1).any())


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
@pytest.mark.parametrize("size", [1, 6, 20])
def test_keys_of_masks(pattern: aq.Pattern, size: int) -> None:
    each = [head.mask(size).double().sum(1).mean() for head in pattern.heads()]
    assert keys_attended(pattern, size) == pytest.approx(float(torch.stack(each).mean()))
    if len(pattern.heads()) == 1:
        (connections,) = connections_of(aq.Design(size, pattern))
        assert keys_attended(pattern, size) == pytest.approx(connections / size)
    past = CAUSAL & pattern
    mask = past.mask(size)
    kept = [sum(bool(mask[now:, j].any()) for j in range(now + 1)) for now in range(size)]
    assert keys_kept(past, size) == max(kept)
    ahead = bool(torch.triu(pattern.mask(size), 1).any())
    assert (keys_kept(pattern, size) is None) == ahead


def test_keys_of_the_usual_ones() -> None:
    assert keys_kept(CAUSAL, 100) == 100
    assert keys_kept(CAUSAL & aq.Window(8), 100) == 9
    assert keys_kept(CAUSAL & (aq.Window(8) | aq.Global((0,))), 100) == 10
    assert keys_kept(aq.Window(8), 100) is None
    assert keys_attended(aq.Full(), 100) == 100
    assert keys_attended(CAUSAL, 101) == 51


@given(designs(mixers=False) | designs(mixers=True))
def test_arrivals_are_those_of_reach(design: aq.Design) -> None:
    tokens = np.arange(design.tokens)
    every = reach(design).layers_per_pair()
    assert (arrivals(design, tokens) == every).all()
    assert (arrivals(design, tokens[::2]) == every[:, ::2]).all()
