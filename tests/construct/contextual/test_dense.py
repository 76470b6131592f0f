"""The contextual mapping: exhaustively, in integers, and against the network's own arithmetic."""

from dataclasses import dataclass

import pytest
import torch

from anyseq.base import EXACT_BITS
from anyseq.construct.contextual import Contextual
from anyseq.errors import ConstructionFault

CASES = [
    Contextual(n, d, w, k, positions)
    for positions in (True, False)
    for n in range(1, 6)
    for d in (1, 2, 3)
    for w in (d, d + 1)
    for k in range(1, 7)
    if n * d * k <= 12 and (positions or 2 ** (k * d) >= n)
]
FITTING = [c for c in CASES if (4 * c.largest).bit_length() <= EXACT_BITS]


def by_sweeping_every_window(context: Contextual, sequences: torch.Tensor) -> torch.Tensor:
    """The paper's loop, one window after the other."""
    ids = sequences + torch.tensor(context.bases)
    for window in context.windows:
        spread = ids.amax(1, keepdim=True) - ids.amin(1, keepdim=True)
        ids = ids + (ids == window) * context.selective_shift * spread
    return ids + context.global_shift * ids.amax(1, keepdim=True)


def test_there_are_many_cases() -> None:
    assert len(FITTING) > 80


@pytest.mark.parametrize("context", FITTING, ids=str)
def test_one_to_one_on_every_sequence(context: Contextual) -> None:
    sequences = context.sequences()
    ids = context.final_ids(sequences)
    distinct, gap = context.check(sequences, ids)
    good = ids[distinct]
    assert gap >= 1
    assert good.unique().numel() == good.numel()
    assert int(good.max()) == context.largest, "the plan's id bits are those of the built ids"
    if context.positions:
        assert distinct.all()
    if len(context.windows) * len(sequences) < 1 << 20:
        assert torch.equal(ids, by_sweeping_every_window(context, sequences))


def test_without_positions_the_ids_lie_where_the_paper_says() -> None:
    """[t_l, t_r] = [δ^(-2nd+1)(δ^-d - 1), δ^(-(2n+1)d+1)(δ^-d - 1)], in units of δ."""
    for context in FITTING:
        if context.positions or context.width != context.features or context.tokens < 2:
            continue
        sequences = context.sequences()
        ids = context.final_ids(sequences)
        distinct, _ = context.check(sequences, ids)
        n, cells = context.tokens, context.token_cells
        low = cells ** (2 * n) * (cells - 1)
        high = cells ** (2 * n + 1) * (cells - 1)
        assert low <= int(ids[distinct].min())
        assert int(ids[distinct].max()) <= high + cells ** (n + 1) * cells
        if not distinct.all():
            assert int(ids[~distinct].max()) < low


@dataclass(frozen=True)
class Published(Contextual):
    """The paper's own constants, with positions."""

    @property
    def selective_shift(self) -> int:
        return int(self.steps**self.width)

    @property
    def global_shift(self) -> int:
        return int(self.steps ** ((self.tokens + 1) * self.width))


@dataclass(frozen=True)
class Weak(Contextual):
    """No global shift to part the sequences."""

    @property
    def global_shift(self) -> int:
        return 0


@pytest.mark.parametrize(
    "context",
    [
        Published(4, 1, 1, 1, positions=True),
        Published(5, 1, 1, 1, positions=True),
        Weak(3, 1, 1, 2, positions=True),
        Weak(3, 1, 1, 2, positions=False),
    ],
    ids=str,
)
def test_planted_errors_are_caught(context: Contextual) -> None:
    sequences = context.sequences()
    with pytest.raises(ConstructionFault, match="contextual mapping"):
        context.check(sequences, context.final_ids(sequences))


def test_one_wrong_id_is_caught() -> None:
    context = Contextual(3, 1, 1, 2, positions=True)
    sequences = context.sequences()
    ids = context.final_ids(sequences)
    ids[5, 1] = ids[40, 2]
    with pytest.raises(ConstructionFault, match="share an id"):
        context.check(sequences, ids)
    ids[5, 1] = context.largest + 1
    with pytest.raises(ConstructionFault, match="expected"):
        context.check(sequences, ids)


def test_equal_tokens_with_a_good_id_are_caught() -> None:
    context = Contextual(2, 1, 1, 2, positions=False)
    sequences = context.sequences()
    ids = context.final_ids(sequences)
    ids[0] = context.largest  # (0, 0)
    with pytest.raises(ConstructionFault, match="equal tokens"):
        context.check(sequences, ids)
