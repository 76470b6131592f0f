"""The contextual mapping of sparse attention: exhaustively, in integers, on many routes."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given

import anyseq as aq
from anyseq.construct.contextual.route import Route
from anyseq.construct.contextual.sparse import SparseContextual
from anyseq.errors import CannotApproximate, ConstructionFault
from construct.sparse import PATTERNS, masks

SIZES = [(1, 1, 1), (1, 1, 2), (1, 2, 1), (2, 2, 1), (2, 3, 1)]


def contexts(route: Route) -> list[SparseContextual]:
    tokens = len(route.order)
    return [
        SparseContextual(tokens, d, w, k, route, first, carried)
        for d, w, k in SIZES
        for first in range(route.period)
        for carried in (False, True)
        if tokens * d * k <= 8 and not (carried and tokens == 1)
    ]


def by_the_paper(context: SparseContextual, sequences: torch.Tensor) -> torch.Tensor:
    """Window after window, layer after layer, as the network does it."""
    ids = sequences + torch.tensor(context.bases)
    masks = context.route.masks
    turns = [turn for row in context.turns for turn in row]
    assert turns == sorted(set(turns))
    for window, turn in zip(context.windows, turns, strict=True):
        mask = masks[turn % len(masks)]
        most = torch.stack([ids[:, seen].amax(1) for seen in mask], dim=1)
        least = torch.stack([ids[:, seen].amin(1) for seen in mask], dim=1)
        ids = ids + (ids == window) * context.selective_shift * (most - least)
    start, spread = context.spread
    assert start >= (turns[-1] + 1 if turns else context.first)
    held = torch.where(ids > context.threshold, ids - context.threshold, 0)
    for turn in range(start, start + spread):
        mask = masks[turn % len(masks)]
        moving = held if context.carried else ids
        most = torch.stack([moving[:, seen].amax(1) for seen in mask], dim=1)
        if context.carried:
            held = torch.where(held == 0, most, held)
        else:
            ids = ids + context.max_shift * most
    return ids + context.max_shift * held if context.carried else ids


def check_all(route: Route) -> None:
    for context in contexts(route):
        sequences = context.sequences()
        if context.largest.bit_length() > 60:
            continue
        ids = context.final_ids(sequences)
        distinct, gap = context.check(sequences, ids)
        assert distinct.all()
        assert gap >= context.least_gap >= 1
        assert ids.unique().numel() == ids.numel()
        assert int(ids.max()) == context.largest, "the plan's id bits are those of the built ids"
        assert torch.equal(ids, by_the_paper(context, sequences))


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("tokens", [1, 2, 3, 4])
def test_one_to_one_on_every_sequence(name: str, tokens: int) -> None:
    check_all(Route.through(aq.Design(tokens, PATTERNS[name]), 2))


@given(masks(4))
def test_one_to_one_wherever_the_conditions_hold(cycle: tuple[torch.Tensor, ...]) -> None:
    design = aq.Design(4, cycle)
    conditions = all(finding.holds for finding in aq.check(design, norm="lp").fixed_width)
    try:
        route = Route.through(design, 2)
    except CannotApproximate:
        assert not conditions
        return
    assert conditions
    context = SparseContextual(4, 1, 1, 1, route, first=1, carried=False)
    for found in (context, replace(context, carried=True)):
        sequences = found.sequences()
        if found.largest.bit_length() <= 60:
            ids = found.final_ids(sequences)
            assert found.check(sequences, ids)[1] >= found.least_gap
            assert torch.equal(ids, by_the_paper(found, sequences))


def test_the_route_is_seen_in_its_turns() -> None:
    route = Route.through(aq.Design(4, aq.Strided(2).split()), 2)
    for place in range(1, 4):
        for layer in range(4):
            turn = route.next_turn(place, layer)
            assert layer <= turn < layer + 2
            assert route.masks[turn % 2, route.order[place], route.order[place - 1]]


def test_the_spread_waits_for_the_better_pattern() -> None:
    """FIXED: two layers are enough from the blocks on, from the summaries on it takes three."""
    route = Route.through(aq.Design(6, aq.Fixed(2).split()), 2)
    back = Route(route.order[::-1], route.masks)  # ends at a token that is nobody's summary
    assert [back.spread(layer) for layer in (0, 1)] == [2, 3]
    assert back.best_spread(1) == (2, 2)


class Weak(SparseContextual):
    """A maximum that hardly counts."""

    @property
    def max_shift(self) -> int:
        return 1


class WrongPattern(SparseContextual):
    """Shifts one layer late: in a pattern in which nobody sees the token before."""

    @property
    def turns(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(turn + 1 for turn in row) for row in super().turns)


@pytest.mark.parametrize("carried", [False, True])
@pytest.mark.parametrize("kind", [Weak, WrongPattern])
def test_planted_errors_are_caught(kind: type[SparseContextual], carried: bool) -> None:
    route = Route.through(aq.Design(4, aq.Strided(2).split()), 2)
    context = kind(4, 1, 1, 2, route, 0, carried)
    sequences = context.sequences()
    with pytest.raises(ConstructionFault, match="contextual mapping"):
        context.check(sequences, context.final_ids(sequences))


def test_one_shifted_id_is_caught() -> None:
    route = Route.through(aq.Design(3, aq.Window(1)), 2)
    context = SparseContextual(3, 1, 1, 2, route, 0, carried=False)
    sequences = context.sequences()
    ids = context.final_ids(sequences)
    ids[5, 1] = ids[40, 2]
    with pytest.raises(ConstructionFault, match="share an id"):
        context.check(sequences, ids)
    ids[5, 1] = context.largest + 100
    with pytest.raises(ConstructionFault, match="expected"):
        context.check(sequences, ids)


def test_the_published_shift_would_do_but_takes_more_bits() -> None:
    """a = 2snδ^(-nd-1) is one-to-one as well; ours is smaller."""
    route = Route.through(aq.Design(3, aq.Window(1)), 2)

    class Published(SparseContextual):
        @property
        def max_shift(self) -> int:
            return 2 * self.spread[1] * 3 * self.steps**4

    ours, published = (
        kind(3, 1, 1, 2, route, 0, carried=False) for kind in (SparseContextual, Published)
    )
    sequences = published.sequences()
    published.check(sequences, published.final_ids(sequences))
    assert ours.largest.bit_length() < published.largest.bit_length()
