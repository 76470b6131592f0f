from itertools import combinations_with_replacement

import pytest
import torch

from anyseq.construct.counting.multisets import count, first_equals, log2_count, multisets, number
from anyseq.construct.methods.sum.weights import largest_weight, separating_weights


@pytest.mark.parametrize(("cells", "size"), [(1, 1), (7, 1), (1, 4), (3, 4), (5, 3), (6, 2)])
def test_multisets_are_all_there_and_numbered(cells: int, size: int) -> None:
    rows = multisets(cells, size)
    every = list(combinations_with_replacement(range(cells), size))
    assert sorted(map(tuple, rows.tolist())) == every
    assert len(rows) == count(cells, size)
    assert 2 ** log2_count(cells, size) == pytest.approx(len(rows))
    assert torch.equal(number(rows, cells), torch.arange(len(rows)))


def test_the_first_of_equals() -> None:
    rows = torch.tensor([[0, 0, 2, 2, 5], [1, 2, 3, 4, 5], [4, 4, 4, 4, 4]])
    assert first_equals(rows).tolist() == [[0, 0, 2, 2, 4], [0, 1, 2, 3, 4], [0] * 5]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("cells", [1, 2, 3, 4, 8, 16, 25])
def test_sums_of_weights_tell_multisets_apart(cells: int, size: int) -> None:
    if count(cells, size) > 10_000:
        return
    weights = separating_weights(cells, size)
    assert len(weights) == cells
    assert min(weights) >= 0
    assert max(weights) <= largest_weight(cells, size)
    sums = [
        sum(weights[cell] for cell in multiset)
        for multiset in combinations_with_replacement(range(cells), size)
    ]
    assert len(set(sums)) == len(sums)
