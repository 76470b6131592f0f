"""Symmetries of graphs that have many: one is found without trying them all."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import anyseq as aq
from anyseq.graph import symmetry


def tree(size: int) -> np.ndarray:
    """Who is a neighbour in the binary tree whose vertex i has the parent (i - 1) // 2."""
    mask = np.eye(size, dtype=bool)
    child = np.arange(1, size)
    mask[child, (child - 1) // 2] = mask[(child - 1) // 2, child] = True
    return mask


@pytest.mark.parametrize("size", [31, 511])
def test_trees_have_branches_that_change_places(size: int) -> None:
    order = np.random.default_rng(0).permutation(size)
    mask = tree(size)[order][:, order]
    found = symmetry(aq.Design(size, torch.from_numpy(mask), aq.NoPosition()))
    assert found.rigid is False
    image = np.array(found.image)
    assert sorted(image) == list(range(size))
    assert not np.array_equal(image, np.arange(size))
    assert np.array_equal(mask[image][:, image], mask)


def test_a_tree_with_branches_of_all_lengths_is_rigid() -> None:
    """A path with a branch of one vertex near its end: nothing can change places."""
    size = 40
    mask = np.abs(np.subtract.outer(np.arange(size), np.arange(size))) <= 1
    mask[size - 1, size - 2] = mask[size - 2, size - 1] = False
    mask[size - 1, 2] = mask[2, size - 1] = True
    assert symmetry(aq.Design(size, torch.from_numpy(mask), aq.NoPosition())).rigid
