"""Positions from the gain: the gains solve their equations, and the layers make E of them."""

from fractions import Fraction

import pytest
import torch
from hypothesis import given

from anyseq.construct.gadgets import gains_for
from construct.sparse import masks


@pytest.mark.parametrize("tokens", [1, 2, 3, 7])
def test_dense_gains_are_the_papers_lower_triangle(tokens: int) -> None:
    gains = gains_for(torch.ones(tokens, tokens), range(tokens))
    assert gains == [Fraction(0)] * tokens + [Fraction(tokens)] * (tokens - 1)


@given(masks(4))
def test_gains_give_what_was_wanted_or_tokens_look_alike(cycle: tuple[torch.Tensor, ...]) -> None:
    mask, wanted = cycle[0], [3, 0, 1, 2]
    gains = gains_for(mask, wanted)
    seen = [[i - j for j in range(4) if mask[i, j]] for i in range(4)]
    rows = torch.tensor([[offset in row for offset in range(-3, 4)] for row in seen]).double()
    full = torch.cat([rows, (rows.sum(1) * torch.tensor(wanted))[:, None]], dim=1)
    solvable = torch.linalg.matrix_rank(rows) == torch.linalg.matrix_rank(full)
    assert (gains is not None) == bool(solvable)
    if gains is not None:
        for row, number in zip(seen, wanted, strict=True):
            assert sum(gains[offset + 3] for offset in row) == len(row) * number
