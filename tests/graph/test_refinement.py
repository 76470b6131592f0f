"""Refinement against random networks on identical tokens, in both directions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from anyseq.design import (
    Average,
    Bilinear,
    Convolution,
    Design,
    Layer,
    LinearAttention,
    Recurrence,
)
from anyseq.graph import Refinement, refine
from anyseq.graph.convolution import told_by_sums
from anyseq.patterns import (
    Causal,
    Dilated,
    FromMask,
    Full,
    LogSparse,
    Pattern,
    PerHead,
    Random,
    Strided,
    Window,
)
from anyseq.positions import (
    URPE,
    Absolute,
    ALiBi,
    GridBias,
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


MIXERS = (
    Convolution(3),
    Convolution(2, causal=True),
    Recurrence(),
    LinearAttention(),
    LinearAttention(normalised=False),
    Average(),
    Bilinear(),
)


def random_layers(rng: np.random.Generator) -> Design:
    """Layers that differ in everything, some of them no attention."""
    size, bos = int(rng.integers(2, 7)), bool(rng.random() < 0.3)
    layers = []
    for _ in range(rng.integers(2, 4)):
        pattern = random_pattern(size, rng)
        if rng.random() < 0.4:
            mixer = MIXERS[rng.integers(len(MIXERS))]
            layers.append(Layer(pattern if mixer.takes_pattern else Full(), mixer=mixer))
        else:
            position = POSITIONS[rng.integers(len(POSITIONS))]
            prob_map = MAPS[rng.integers(len(MAPS))]
            layers.append(Layer(pattern, position, prob_map, sinks=bool(rng.random() < 0.25)))
    return Design(size - bos, layers=layers, position=NoPosition(), bos=bos)


def finer(fine: np.ndarray, coarse: np.ndarray) -> bool:
    """Whether equal numbers in `fine` are equal in `coarse`."""
    pairs = itertools.combinations(range(len(fine)), 2)
    return all(coarse[i] == coarse[k] for i, k in pairs if fine[i] == fine[k])


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
        assert finer(found.classes, found.limit)
        assert found.rounds == rounds, design


@pytest.mark.parametrize("prob_map", MAPS, ids=str)
@pytest.mark.parametrize("shape", [(2, 2), (3, 2), (2, 2, 2)], ids=str)
def test_biases_over_arrays(shape: tuple[int, ...], prob_map: str | ProbMap) -> None:
    rng, size = np.random.default_rng(MAPS.index(prob_map)), math.prod(shape)
    for case in range(8):
        grid = GridBias(shape)
        position = URPE(grid) if case % 3 == 2 else grid
        patterns = tuple(random_pattern(size, rng) for _ in range(case % 2 + 1))
        sinks = prob_map == "softmax" and case % 2 == 1
        design = Design(size, patterns, position=position, prob_map=prob_map, sinks=sinks)
        found = refine(design)
        seen, rounds = clusters(design, case)
        assert finer(seen, found.classes), design
        assert finer(found.limit, seen), design
        assert found.rounds == rounds, design


@pytest.mark.parametrize("seed", range(12))
def test_layers_of_different_kinds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for case in range(20):
        design = random_layers(rng)
        found = refine(design)
        seen, rounds = clusters(design, case)
        assert finer(seen, found.classes), design
        assert finer(found.limit, seen), design
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


def sees(size: int, *looks: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Two masks: in the first tokens 0 and 1 see nothing, the others themselves, which gives two
    colours; in the second the last tokens see what is listed."""
    colours, mask = torch.eye(size).bool(), torch.zeros(size, size).bool()
    colours[:2] = False
    for i, seen in zip(range(size - len(looks), size), looks, strict=True):
        mask[i, seen] = True
    return colours, mask


def test_top_k_sees_which_sets_of_colours_have_k_keys() -> None:
    """Without positions rows with m keys of each of two colours differ by whether one colour alone
    has k keys; with a bias for each offset no two of them are alike."""
    masks = sees(9, [0, 2], [0, 1, 2, 3], [0, 3])
    for k, classes in {1: 1, 2: 2, 3: 1, 4: 1}.items():
        found = refine(Design(9, masks, NoPosition(), TopK(k)))
        assert len(np.unique(found.classes[6:])) == len(np.unique(found.limit[6:])) == classes
        assert len(np.unique(refine(Design(9, masks, RelativeBias(), TopK(k))).classes[6:])) == 3


@pytest.mark.parametrize(("prob_map", "last"), [("sparsemax", 22), ("entmax15", 91)])
def test_keys_too_far_for_any_slope(prob_map: str, last: int) -> None:
    """Two tokens see colour 0 at one distance, and colour 1 at the distances 1, ..., d + 1
    and 1, ..., d + 2: sparsemax gives no weight to the last one if 1 + 2 + ... + (d + 1) >= 256,
    entmax15 if 1 + 4 + ... + (d + 1)² >= 2^18."""
    for d, differ in {last - 1: True, last: False}.items():
        size = 8 * d
        i, other = 5 * d, 7 * d
        mask = torch.zeros(size, size).bool()
        mask[i, i - d - 1 : i] = mask[other, other - d - 2 : other] = True
        mask[i, 0], mask[other, 2 * d] = True, True  # both 5d away
        colours = torch.eye(size).bool()
        colours[0] = colours[2 * d] = False
        found = refine(Design(size, (colours, mask), ALiBi(), prob_map))
        assert (found.classes[i] != found.classes[other]) == differ
        weights = as_weights(prob_map, size, d)
        assert (weights[-1] > 0) == differ


def as_weights(prob_map: str, size: int, d: int) -> torch.Tensor:
    """The weights of keys at the distances 0, ..., d + 1 under the flattest slope."""
    scores = -(2.0**-8) * torch.arange(d + 2, dtype=torch.float64)
    return Design(size, Full(), ALiBi(), prob_map).probability(scores)


def test_hardmax_with_slopes_sees_the_nearest_keys() -> None:
    """Of the colours 0 and 1: nearer by one, farther ones besides, twice as many, another gap."""
    masks = sees(12, [0, 2], [1, 2], [1, 2, 3], [1, 3])
    found = refine(Design(12, masks, ALiBi(), "hardmax"))
    # nearest of both: (8, 6), (8, 7), (9, 7), (10, 8)
    assert [len(set(found.classes[[8, 10]])), len(set(found.classes[[8, 11]]))] == [1, 1]
    assert found.classes[9] != found.classes[8]


@pytest.mark.parametrize(
    "patterns",
    [
        Strided(7), Window(2), Dilated(2, 3), LogSparse(), Causal() & Window(5), Strided(7).split(),
        ~Window(20), (Window(1), Dilated(1, 4)), PerHead(Window(1), Dilated(2, 2)),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("bos", [False, True])
def test_sums_agree_with_tables(patterns: Pattern, bos: bool) -> None:
    for position in (URPE(), URPE(NoPosition()), RelativeBias(), Rotary()):
        for depth in (None, 3):
            design = Design(75, patterns, position, bos=bos, depth=depth)
            found, layers = refine(design), told_by_sums(design)
            assert (layers is not None) == found.discrete
            if layers is not None:  # knowledge may come a layer earlier than it spreads
                assert found.rounds <= layers <= found.rounds + (found.rounds > 8)
    assert told_by_sums(Design(75, patterns, NoPosition(), bos=bos)) is None


def test_long_designs_need_no_tables() -> None:
    found = refine(Design(65_536, Strided(256), URPE()))
    assert (found.discrete, found.rounds) == (True, 2)
    found = refine(Design(65_536, Window(64), Rotary(), bos=True))
    assert (found.discrete, found.rounds) == (True, 1024)


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
