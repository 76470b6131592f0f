"""Refinement against random networks on identical tokens, in both directions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from anyseq.design import Design
from anyseq.graph import Refinement, refine
from anyseq.patterns import FromMask, Full, Pattern, PerHead, Random, Window
from anyseq.positions import (
    URPE,
    Absolute,
    ALiBi,
    NoPosition,
    Position,
    RelativeBias,
    Rotary,
    Shaw,
    Sinusoidal,
    T5Bias,
)
from anyseq.probability import ProbMap, TopK
from graph.networks import clusters

POSITIONS = (
    NoPosition(),
    RelativeBias(),
    T5Bias(4, 3),
    T5Bias(2, 3, bidirectional=False),
    Rotary(),
    Shaw(1),
    ALiBi(),
    URPE(),
    URPE(NoPosition()),
    URPE(ALiBi()),
    URPE(Shaw(1)),
    URPE(T5Bias(4, 3)),
)
MAPS = ("softmax", "hardmax", "sparsemax", "entmax15", TopK(1), TopK(2), TopK(3))


def random_pattern(size: int, rng: np.random.Generator) -> Pattern:
    """A mask: any, by offsets, causal, or with rows that are alike."""
    kind = rng.integers(4)
    mask = rng.random((size, size)) < rng.choice([0.3, 0.5, 0.8])
    if kind == 1:
        allowed = rng.random(2 * size - 1) < 0.6
        mask = allowed[np.subtract.outer(np.arange(size), np.arange(size)) + size - 1]
    if kind == 2:
        mask = np.tril(mask)
    if kind == 3:
        mask = mask[rng.integers(2, size=size)]
    return FromMask(torch.from_numpy(np.ascontiguousarray(mask)))


def random_design(position: Position, prob_map: str | ProbMap, rng: np.random.Generator) -> Design:
    size = int(rng.integers(2, 7))
    cycle = []
    for _ in range(rng.integers(1, 4)):
        heads = [random_pattern(size, rng) for _ in range(rng.integers(1, 3))]
        cycle.append(heads[0] if len(heads) == 1 else PerHead(*heads))
    bos, sinks = bool(rng.random() < 0.3), bool(rng.random() < 0.25)
    return Design(size - bos, tuple(cycle), position, prob_map, bos=bos, sinks=sinks)


def finer(fine: np.ndarray, coarse: np.ndarray) -> bool:
    """Whether equal numbers in `fine` are equal in `coarse`."""
    pairs = itertools.combinations(range(len(fine)), 2)
    return all(coarse[i] == coarse[k] for i, k in pairs if fine[i] == fine[k])


def exact(position: Position, prob_map: str | ProbMap) -> bool:
    inner = position.base if isinstance(position, URPE) else position
    return not (isinstance(prob_map, TopK) or (isinstance(inner, ALiBi) and prob_map != "softmax"))


@pytest.mark.parametrize("prob_map", MAPS, ids=str)
@pytest.mark.parametrize("position", POSITIONS, ids=str)
def test_against_random_networks(position: Position, prob_map: str | ProbMap) -> None:
    rng = np.random.default_rng(POSITIONS.index(position) * 100 + MAPS.index(prob_map))
    for case in range(8):
        design = random_design(position, prob_map, rng)
        found = refine(design)
        seen, rounds = clusters(design, case)
        assert finer(seen, found.classes), design
        assert finer(found.limit, seen), design
        if exact(position, prob_map):
            assert finer(found.classes, found.limit)
            assert found.rounds == rounds, design


def test_examples() -> None:
    """The border creeps in; from BOS a colour travels one token a layer."""
    found = refine(Design(9, Window(1), URPE()))
    assert (found.discrete, found.rounds) == (True, 4)
    found = refine(Design(8, Window(1), RelativeBias(), bos=True))
    assert (found.discrete, found.rounds) == (True, 7)
    found = refine(Design(9, Full(), RelativeBias()))
    assert (found.discrete, found.rounds, found.stuck) == (False, 0, (0, 8))
    strictly = FromMask(torch.ones(6, 6).tril(-1).bool())
    assert refine(Design(6, strictly, NoPosition())).discrete


def test_what_is_known_from_the_start_needs_no_round() -> None:
    for position in (Absolute(), Sinusoidal(), URPE(Absolute())):
        found = refine(Design(70_000, Full(), position))
        assert (found.discrete, found.rounds, found.stuck) == (True, 0, None)
    assert refine(Design(1, Full(), NoPosition())).discrete


def test_alibi_sees_less_than_a_free_bias() -> None:
    mask = torch.tensor([[1, 1, 0, 1], [1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 0, 0]]).bool()
    for sinks in (False, True):
        free = refine(Design(4, mask, RelativeBias(), sinks=sinks))
        slope = refine(Design(4, mask, ALiBi(), sinks=sinks))
        assert finer(free.classes, slope.classes)
    design = Design(64, Full(), ALiBi(), sinks=True)
    assert len(np.unique(refine(design).classes)) == 32  # a token and its mirror image


def test_bounds_of_top_k() -> None:
    """Tokens 2 and 3 see one token of each colour at different offsets, which softmax tells apart;
    token 4 sees two of each, and may equal either where it has more than k keys."""
    colours, looks = torch.eye(6).bool(), torch.zeros(6, 6).bool()
    colours[:2] = False
    for i, seen in {2: [0, 3], 3: [0, 4], 4: [0, 1, 2, 3]}.items():
        looks[i, seen] = True
    for k, apart in {1: False, 2: False, 3: False, 4: True}.items():
        found = refine(Design(6, (colours, looks), RelativeBias(), TopK(k)))
        assert (len(np.unique(found.classes[2:5])) == 3) == apart
        assert (len(np.unique(found.classes[2:5])) == 1) == (not apart)
        assert len(np.unique(found.limit[2:5])) == 3


def test_a_random_graph_of_500_tokens() -> None:
    found = refine(Design(500, Random(4), NoPosition(), sinks=True))
    assert found.rounds == 0  # everybody sees five keys
    assert found.stuck == (0, 499)
    found = refine(Design(500, Random(4) & ~Window(30), NoPosition(), sinks=True))
    assert found.discrete


def test_the_farthest_stuck_pair() -> None:
    limit = np.array([0, 1, 2, 1, 0, 2, 2, 1])
    assert Refinement(limit, limit, 0).stuck == (1, 7)
    assert Refinement(np.arange(3), np.arange(3), 0).stuck is None
