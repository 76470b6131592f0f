"""Hamiltonian paths against all permutations."""

from __future__ import annotations

import itertools
from time import monotonic

import numpy as np
import pytest
import torch
from hypothesis import given

import anyseq.graph.path as path_module
import anyseq.graph.path_solver as solver_module
from anyseq.design import Design
from anyseq.errors import InvalidArgument
from anyseq.graph import hamiltonian_path
from anyseq.graph.edges import Edges, edges_of
from anyseq.graph.path_search import chain, exact, patched, too_few_neighbours
from anyseq.graph.path_solver import solved
from anyseq.patterns import Causal, FromMask, Full, Pattern, Random, Residue, Window
from graph.designs import designs, matrices


def union(design: Design) -> np.ndarray:
    together: np.ndarray = np.any(matrices(design), axis=0)
    return together[design.bos :, design.bos :]


def is_path(order: np.ndarray, mask: np.ndarray) -> bool:
    whole = np.array_equal(np.sort(order), np.arange(len(mask)))
    return whole and bool(mask[order[1:], order[:-1]].all())


def possible(mask: np.ndarray) -> bool:
    orders = itertools.permutations(range(len(mask)))
    return any(is_path(np.array(order), mask) for order in orders)


def shuffled(size: int, extra: float, seed: int, *, path: bool = True) -> np.ndarray:
    """A hidden path and random edges, or random edges alone."""
    rng = np.random.default_rng(seed)
    mask = rng.random((size, size)) < extra
    hidden = rng.permutation(size)
    if path:
        mask[hidden[1:], hidden[:-1]] = True
    return mask


def plain(mask: np.ndarray) -> Edges:
    mask = mask & ~np.eye(len(mask), dtype=bool)
    return edges_of(FromMask(torch.from_numpy(mask)), len(mask))


@given(designs(most=6, cycle=2))
def test_against_all_permutations(design: Design) -> None:
    mask = union(design)
    found = hamiltonian_path(design)
    assert found.exists == possible(mask)
    if found.order is not None:
        assert is_path(found.order, mask)


@pytest.mark.parametrize("seed", range(12))
def test_every_method_agrees(seed: int) -> None:
    mask = shuffled(7, 0.12, seed, path=seed % 2 == 0)
    edges, truth = plain(mask), possible(mask)
    assert (exact(edges) is not None) == truth
    assert not (truth and (chain(edges) is None or too_few_neighbours(edges)))
    answer = solved(edges, 5.0)
    assert answer.exists == truth
    if answer.order is not None:
        assert is_path(answer.order, mask)
    if (found := patched(edges, end=monotonic() + 0.1)) is not None:
        assert is_path(found, mask)


@pytest.mark.parametrize(
    ("pattern", "exists", "method"),
    [
        (Full(), True, "natural order"),
        (Window(1), True, "natural order"),
        (Causal(), True, "natural order"),
        (~Causal(), True, "natural order"),
        (Residue(3), False, "components"),
    ],
)
def test_named(pattern: Full, exists: bool, method: str) -> None:
    found = hamiltonian_path(Design(100, pattern))
    assert (found.exists, found.method) == (exists, method)


def test_leaves_of_a_star_refute() -> None:
    mask = torch.zeros(30, 30).bool()
    mask[0] = mask[:, 0] = True
    assert hamiltonian_path(Design(30, mask)).method == "degrees"


@pytest.mark.parametrize("extra", [0.0, 0.01, 0.2])
def test_a_hidden_path_of_300_tokens(extra: float) -> None:
    mask = shuffled(300, extra, 1)
    found = hamiltonian_path(Design(300, torch.from_numpy(mask)), seconds=20.0)
    assert found.exists
    assert found.order is not None
    assert is_path(found.order, mask)


def renamed(mask: torch.Tensor) -> np.ndarray:
    order = np.random.default_rng(1).permutation(len(mask))
    found: np.ndarray = mask.numpy()[order][:, order]
    return found


@pytest.mark.parametrize("pattern", [Causal() & Window(6), Causal(), Window(2)], ids=str)
def test_a_pattern_of_2000_tokens_in_another_order(pattern: Pattern) -> None:
    """Where nothing looks back the order is the only path; matchings must not take for ever."""
    mask = renamed(pattern.mask(2000))
    assert not too_few_neighbours(plain(mask))
    found = hamiltonian_path(Design(2000, torch.from_numpy(mask)))
    if found.order is not None:
        assert is_path(found.order, mask)
    assert found.method == "components" or isinstance(pattern, Window)


def test_without_a_solver_the_answer_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver_module, "find_spec", lambda name: None)
    monkeypatch.setattr(path_module, "patched", lambda edges, end: None)
    found = hamiltonian_path(Design(40, Random(6)))
    assert (found.exists, found.order, found.method) == (None, None, "given up")
    assert "pip install 'anyseq[solver]'" in found.message


def test_seconds_must_be_a_time() -> None:
    with pytest.raises(InvalidArgument, match="seconds=0"):
        hamiltonian_path(Design(3), seconds=0)


def test_a_mask_that_differs_by_head_has_no_one_graph() -> None:
    with pytest.raises(InvalidArgument, match=r"the head h.*PerHead"):
        hamiltonian_path(Design(4, lambda b, h, i, j: (i >= j) | (h == 0)))
