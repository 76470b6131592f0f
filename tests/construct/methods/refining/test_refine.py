"""What rounds of random heads tell apart, against the theorem; and how exact their keys are."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings

import anyseq as aq
from anyseq.base import generator
from anyseq.construct.counting.lattice import lattice
from anyseq.construct.methods.boltzmann.refining import Wires, cases, choose, refine, refining_heads
from anyseq.construct.methods.boltzmann.refining.draw import draw_layer, rounding
from anyseq.construct.methods.boltzmann.refining.refine import Round
from anyseq.construct.request.kind import kind_of_function
from anyseq.positions import Sinusoidal
from construct.gathering.designs import designs

WIRES = Wires(0, 1, 2)


def rounds_of(design: aq.Design, cells: torch.Tensor, per_token: int) -> list[Round]:
    heads = refining_heads(design)
    start = cells
    if isinstance(getattr(design.position, "base", design.position), aq.Absolute):
        start = start + per_token * torch.arange(design.tokens)
    if design.bos:
        start = torch.nn.functional.pad(start, (1, 0), value=int(start.max()) + 1)
    return list(refine(heads, WIRES, 3, heads.shared_gain(generator(0)), start))


@given(designs(3))
@settings(max_examples=40, deadline=None)
def test_on_different_cells_every_universal_design_loses_nothing(design: aq.Design) -> None:
    """Theorem 2: what no network tells apart, when all tokens differ, f need not either."""
    base = getattr(design.position, "base", design.position)
    assume(design.prob_map.name in ("softmax", "sparsemax", "entmax15"))  # type: ignore[union-attr]
    assume(not isinstance(base, Sinusoidal))
    kind = kind_of_function(design, "lp")
    assume(bool(aq.check(design, norm="lp", target=kind).universal))
    cells = lattice(design.tokens, design.tokens)
    classes = rounds_of(design, cells, design.tokens)[-1].classes[:, int(design.bos) :]
    different = (cells.sort(dim=1).values.diff(dim=1) > 0).all(1)
    case = cases(cells, design.tokens, kind)
    assert not choose(classes[different], case[different]).lost.any()


@pytest.mark.parametrize("tokens", [2, 3, 4])
@pytest.mark.parametrize("position", [aq.RelativeBias(), aq.Rotary(), aq.T5Bias()])
def test_dense_relative_positions_lose_constant_sequences_only(
    position: aq.Position, tokens: int
) -> None:
    cells = lattice(4, tokens)
    (found,) = rounds_of(aq.Design(tokens, position=position), cells, 4)
    lost = choose(found.classes, cases(cells, 4, "all")).lost
    constant = (cells == cells[:, :1]).all(1)
    assert torch.equal(lost.sum(1), (tokens - 1) * constant.long())


@given(designs(3))
@settings(max_examples=25, deadline=None)
def test_classes_only_get_finer_and_lie_a_gap_apart(design: aq.Design) -> None:
    assume(design.prob_map.name in ("softmax", "sparsemax", "entmax15"))  # type: ignore[union-attr]
    assume(not isinstance(getattr(design.position, "base", design.position), Sinusoidal))
    rounds = rounds_of(design, lattice(3, design.tokens), 3)
    for found in rounds:
        assert (found.low[1:] - found.high[:-1] >= found.gap).all()
        assert (found.low <= found.high).all()
        assert sorted(found.numbers.tolist()) == list(range(len(found.low)))
        assert found.id_bits <= 53
    for coarse, fine in pairwise(rounds):
        assert len(fine.low) > len(coarse.low)
        pairs = torch.stack([coarse.classes.flatten(), fine.classes.flatten()]).unique(dim=1)
        assert pairs.shape[1] == len(fine.low)
        assert fine.turn > coarse.turn


def exact_weights(scores: np.ndarray, name: str) -> np.ndarray:
    """Rows of weights in extended precision, by bisection for the sparse maps."""
    if name == "softmax":
        exp = np.exp(scores - scores.max(-1, keepdims=True))
        return np.asarray(exp / exp.sum(-1, keepdims=True))
    power, scores = (1, scores) if name == "sparsemax" else (2, scores / 2)
    high = scores.max(-1, keepdims=True)
    low = high - 1
    for _ in range(80):
        middle = (low + high) / 2
        over = (np.maximum(scores - middle, 0) ** power).sum(-1, keepdims=True) > 1
        low, high = np.where(over, middle, low), np.where(over, high, middle)
    return np.asarray(np.maximum(scores - low, 0) ** power)


@pytest.mark.parametrize("prob_map", ["softmax", "sparsemax", "entmax15"])
@pytest.mark.parametrize("position", [aq.RelativeBias(), aq.ALiBi(), aq.Rotary()])
@pytest.mark.parametrize("top", [7, 100_003])
def test_keys_are_as_exact_as_is_claimed(position: aq.Position, prob_map: str, top: int) -> None:
    """Against extended precision, by another formula."""
    design = aq.Design(6, position=position, prob_map=prob_map)
    heads, rng, wide = refining_heads(design), generator(1), np.longdouble
    layer = draw_layer(heads, WIRES, 3, top, rng)
    numbers = torch.randint(0, top + 1, (400, 6), generator=rng)
    z = torch.stack([numbers, torch.ones_like(numbers), torch.zeros_like(numbers)], 2).double()
    found = heads.run(aq.Full(), layer, None, z)[..., 2].numpy()
    offset = np.arange(6)[:, None] - np.arange(6)
    total = np.zeros_like(found, dtype=wide)
    for head in range(heads.count):
        rows = heads.rows(head)
        q, k, v = (
            t.numpy().astype(wide)
            for t in (layer.q_bias[0, rows], layer.k_weight[0, rows], layer.v_weight[0, rows])
        )
        keys = z.numpy().astype(wide) @ k.T
        if isinstance(position, aq.Rotary):  # one plane, turned by 1 a position
            cos, sin = np.cos(offset.astype(wide)), np.sin(offset.astype(wide))
            turned = np.stack([q[0] * cos + q[1] * -sin, q[0] * sin + q[1] * cos], 2)
            scores = np.einsum("ijs,bjs->bij", turned, keys)
        else:
            scores = (keys @ q)[:, None, :] + np.zeros((6, 6), dtype=wide)
        if isinstance(position, aq.ALiBi):
            scores = scores - wide(position.slopes(heads.count)[head]) * np.abs(offset)
        if isinstance(position, aq.RelativeBias):
            scores = scores + layer.inside["table"][0, head].numpy()[offset + 5]
        mixed = exact_weights(scores, prob_map) @ (z.numpy().astype(wide) @ v.T)
        total += mixed @ layer.o_weight[0, 2, rows].numpy().astype(wide)
    allowed = rounding(heads, WIRES, layer, None, top)
    assert float(np.abs(total - found).max()) <= allowed / 4
    assert allowed < 1e-10


def test_the_most_frequent_case_is_served_and_the_others_are_lost() -> None:
    classes = torch.tensor([[0, 0, 1], [0, 2, 2]])
    case = torch.tensor([[5, 6, 7], [6, 8, 8]])
    choice = choose(classes, case)
    assert choice.lost.tolist() == [[True, False, False], [False, False, False]]
    assert choice.source.tolist() == [[1, 1, 2], [1, 4, 4]]


@pytest.mark.parametrize(("kind", "expected"), [("all", 27), ("causal", 3 + 9 + 27)])
def test_cases_are_counted_without_gaps(kind: str, expected: int) -> None:
    found = cases(lattice(3, 3), 3, kind)
    assert len(found.unique()) == (81 if kind == "all" else expected)


def test_cases_of_equivariant_functions_are_own_cell_and_multiset() -> None:
    cells = lattice(3, 3)
    found = cases(cells, 3, "equivariant")
    for row in range(len(cells)):
        order = torch.randperm(3, generator=generator(row))
        other = (cells == cells[row, order]).all(1).nonzero()[0, 0]
        assert torch.equal(found[other], found[row, order])
    assert len(found.unique()) == 3 * 6
