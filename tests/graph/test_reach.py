"""Reach against matrix products written naively."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import anyseq.graph.spread as spread_module
from anyseq.design import Design
from anyseq.errors import InvalidArgument
from anyseq.graph import Reach, reach
from anyseq.graph.edges import edges_of
from anyseq.graph.spread import BitSets, NewPairs
from anyseq.graph.wanted import Wanted
from anyseq.patterns import (
    BigBird,
    Causal,
    Fixed,
    FromMask,
    Full,
    Longformer,
    Random,
    Ring,
    Star,
    Strided,
    Window,
)
from graph.designs import designs, matrices, offset_designs

TARGETS = st.sampled_from(["all", "causal"])


class Naive(NamedTuple):
    layers: int | None
    per_pair: np.ndarray
    wanted: np.ndarray


def naive(design: Design, target: str, phase: int) -> Naive:
    """S <- (1 + M_t) S, one layer after the other, as many layers as a way can take."""
    cycle = matrices(design)
    size = len(cycle[0])
    holds = np.eye(size, dtype=int)
    per_pair = np.where(holds > 0, 0, -1)
    for layer in range(1, size * len(cycle) + 1):
        step = np.eye(size, dtype=int) + cycle[(layer - 1 + phase) % len(cycle)]
        holds = (step @ holds > 0).astype(int)
        per_pair = np.where((per_pair < 0) & (holds > 0), layer, per_pair)
    per_pair = per_pair[design.bos :, design.bos :]
    wanted = np.ones((design.tokens,) * 2, dtype=bool)
    if target == "causal":
        wanted = np.tril(wanted)
    asked = per_pair[wanted]
    return Naive(None if (asked < 0).any() else int(asked.max()), per_pair, wanted)


def agrees(design: Design, target: str) -> Reach:
    found, truth = reach(design, target), naive(design, target, 0)
    phases = range(len(design.cycle))
    assert found.layers == truth.layers
    for phase in phases:
        assert found.layers_after(phase) == naive(design, target, phase).layers
    assert found.holds == (truth.layers is not None)
    assert np.array_equal(found.layers_per_pair(), truth.per_pair)
    if truth.layers is None:
        assert found.unreached is not None
        assert truth.per_pair[found.unreached] == -1
        assert truth.wanted[found.unreached]
        assert found.last == ()
    else:
        assert found.unreached is None
        late = {
            (int(k), int(j))
            for k, j in np.argwhere(truth.wanted & (truth.per_pair == truth.layers))
        }
        late = late if truth.layers else set()
        assert len(set(found.last)) == len(found.last) == min(8, len(late))
        assert set(found.last) <= late
    asked = truth.per_pair[truth.wanted]
    counts = tuple(int(((asked >= 0) & (asked <= t)).sum()) for t in range(int(asked.max()) + 1))
    assert found.reached in (None, counts) if found.proof == "offsets" else found.reached == counts
    assert found.connections == tuple(int(m.sum()) for m in matrices(design))
    return found


@given(designs(), TARGETS)
def test_against_matrix_products(design: Design, target: str) -> None:
    agrees(design, target)


@given(offset_designs(), TARGETS)
@settings(max_examples=150)
def test_offsets_against_matrix_products(design: Design, target: str) -> None:
    agrees(design, target)


@given(designs(), TARGETS)
@settings(max_examples=60)
def test_bits_and_pairs_keep_the_same_sets(design: Design, target: str) -> None:
    wanted = Wanted.of(design, target)
    cycle = [edges_of(pattern, wanted.size) for pattern in design.cycle]
    bits, pairs = BitSets(cycle, wanted), NewPairs(cycle, wanted)
    for _ in range(3 * len(cycle)):
        assert np.array_equal(bits.matrix(), pairs.matrix())
        assert bits.count() == pairs.count()
        assert bits.missing(5) == pairs.missing(5)
        assert bits.advance() == pairs.advance()


@pytest.mark.parametrize("target", ["all", "causal"])
@pytest.mark.parametrize("bos", [False, True])
def test_bits_over_several_words(target: str, bos: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread_module, "_PAIR_WORK", 0)
    for seed in range(2):
        found = agrees(Design(70 - seed, (Random(2, seed=seed), Window(3)), bos=bos), target)
        assert found.proof == "sets"


@pytest.mark.parametrize(
    ("pattern", "layers", "proof"),
    [
        (Strided(16), 2, "offsets"),
        (Window(16), 64, "offsets"),
        (Window(1), 1023, "offsets"),
        (Ring(4), 128, "offsets"),
        (Full(), 1, "offsets"),
        (Star(2), 2, "hub"),
        (Longformer(8, (5,)), 2, "hub"),
        (BigBird(16), 2, "hub"),
        (Fixed(32), 2, "sets"),
        (Random(3), None, "sets"),
        (Causal(), None, "offsets"),
    ],
)
def test_named_patterns_at_1024(pattern: object, layers: int | None, proof: str) -> None:
    found = reach(Design(1024, pattern))
    assert found.proof == proof
    if not isinstance(pattern, Random):
        assert found.layers == layers
    by_mask = reach(Design(1024, FromMask(pattern.mask(1024))))  # type: ignore[attr-defined]
    assert by_mask.layers == found.layers
    assert by_mask.connections == found.connections


def test_the_phase_matters() -> None:
    found = reach(Design(64, Fixed(8).split()))
    assert [found.layers_after(phase) for phase in (0, 1)] == [2, 3]


def test_one_token_needs_no_layer() -> None:
    found = reach(Design(1, torch.zeros(1, 1).bool()))
    assert (found.layers, found.last, found.reached) == (0, (), (1,))


def test_bos_may_be_the_hub() -> None:
    mask = torch.eye(6).bool()
    mask[0] = mask[:, 0] = True
    found = reach(Design(5, mask, bos=True))
    assert (found.layers, found.proof, found.hub) == (2, "hub", 0)


def test_refusals() -> None:
    with pytest.raises(InvalidArgument, match="target='past'"):
        reach(Design(4), "past")
    with pytest.raises(InvalidArgument, match="tokens=4096"):
        reach(Design(4096)).layers_per_pair()
    with pytest.raises(InvalidArgument, match=r"the head h.*PerHead"):
        reach(Design(4, lambda b, h, i, j: (i >= j) | (h == 0)))
