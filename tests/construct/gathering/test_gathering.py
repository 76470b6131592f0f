"""What gathering promises, for designs of every kind."""

from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import anyseq as aq
from anyseq.construct.gathering import SLOT_ROUNDING, Gathering, Room, gather, least_width
from anyseq.nn import Stack
from construct.gathering.designs import designs, gathers


def room_of(design: aq.Design, features: int = 1, hidden: int = 5) -> Room:
    slots_at = features + design.tokens + design.bos
    width = least_width(design, features, slots_at, gathers(design) or "all")
    return Room(design.tokens, features, width, hidden, features, slots_at)


def network(design: aq.Design, room: Room, found: Gathering) -> Stack:
    """The gathering alone, all features out."""
    return Stack.of(
        design, found.runs, in_features=room.features, out_features=room.width, **found.vectors
    )


def state(model: Stack, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        out: torch.Tensor = model(x)
    return out


def sequences(design: aq.Design, features: int) -> torch.Tensor:
    rng = torch.Generator().manual_seed(0)
    x = torch.rand(6, design.tokens, features, generator=rng, dtype=torch.float64)
    x[0], x[1], x[2] = 0.0, 1.0, x[2, :1]
    return x


@given(designs(), st.integers(1, 2), st.integers(4, 40))
@settings(max_examples=30, deadline=None)
def test_every_token_knows_its_place_and_holds_the_sequence(
    design: aq.Design, features: int, hidden: int
) -> None:
    wanted = gathers(design)
    assume(wanted is not None)
    assert wanted is not None
    room = room_of(design, features, hidden)
    found = gather(design, room, wanted)
    x, n = sequences(design, features), design.tokens
    model = network(design, room, found)
    assert (len(model), model.shape.attention_layers) == (found.layers, found.attention_layers)
    z = state(model, x)
    place = z[:, :, room.position_at : room.slots_at]
    told = torch.eye(n + design.bos, dtype=torch.float64)[design.bos :]
    assert torch.equal(place, told.expand_as(place))
    slots = z[:, :, room.slots_at : room.slots_at + n * features].view(-1, n, n, features)
    off = (slots - x[:, None]).abs().amax((0, 3))
    wants = torch.ones(n, n).tril() if wanted == "causal" else torch.ones(n, n)
    exact = not isinstance(design.position, aq.URPE | aq.Sinusoidal)
    assert float((off * wants).max()) <= (0.0 if exact else SLOT_ROUNDING)
    assert float(slots.min()) >= 0.0
    assert float(slots.max()) <= 1.0 + SLOT_ROUNDING
    assert (z[:, :, : room.position_at] == 0).all()
    assert (z[:, :, room.slots_at + n * features :] == 0).all()


@pytest.mark.parametrize(
    ("design", "layers"),
    [
        (aq.Design(8), 1),
        (aq.Design(8, aq.Window(1)), 7),
        (aq.Design(8, aq.Window(2)), 4),
        (aq.Design(8, aq.Star(1)), 2),
        (aq.Design(8, (aq.Blocks(4), aq.Full())), 1),
        (aq.Design(8, position=aq.URPE()), 1),
        (aq.Design(8, aq.Causal(), aq.URPE(aq.Rotary(), shared=False)), 1),
        (aq.Design(8, position=aq.URPE(aq.ALiBi())), 2),
        (aq.Design(8, position=aq.Rotary(), bos=True), 2),
        (aq.Design(8, aq.Window(1), aq.URPE()), 4 + 7),
        # slopes of every other head are powers of two: of none that has the first pattern
        (
            aq.Design(
                4, aq.PerHead(aq.Window(1), aq.Global((0,))), aq.ALiBi(), "hardmax", bos=True
            ),
            9,
        ),
        (aq.Design(8, aq.Causal(), aq.NoPosition(), bos=True), 2),
    ],
    ids=str,
)
def test_attention_layers_are_those_of_the_theorem(design: aq.Design, layers: int) -> None:
    """Rounds of refinement, and as many hops as pairs need to meet; wide feed-forward halves leave
    no other blocks between."""
    found = gather(design, room_of(design, hidden=200), gathers(design) or "")
    assert found.attention_layers <= layers


def test_long_designs_have_gaps_far_above_rounding() -> None:
    for design in (
        aq.Design(24, aq.Causal(), aq.NoPosition(), bos=True),
        aq.Design(16, position=aq.Rotary(), bos=True),
        aq.Design(12, position=aq.ALiBi(), bos=True, prob_map="entmax15"),
    ):
        room = room_of(design)
        model = network(design, room, gather(design, room, gathers(design) or ""))
        places = state(model, sequences(design, 1))[:, :, room.position_at : room.slots_at]
        assert torch.equal(places[0, :, 1:], torch.eye(design.tokens, dtype=torch.float64))
        assert torch.equal(places, places[:1].expand_as(places))


@pytest.mark.parametrize(
    "design",
    [
        aq.Design(3, aq.Window(1)),
        aq.Design(3, position=aq.Rotary(), bos=True),
        aq.Design(3, position=aq.URPE(), sinks=True),
    ],
    ids=str,
)
def test_a_wrong_weight_is_felt(design: aq.Design) -> None:
    """Where a hop takes a slot from, what it takes and where to; then what tells positions, or
    fills the own slot: some single weight with the wrong sign is enough for each."""
    room, x = room_of(design), sequences(design, 1)
    model = network(design, room, gather(design, room, "all"))
    right = state(model, x)
    for name, layer in [*((f"{side}_weight", -1) for side in "qkvo"), ("up_weight", 0)]:
        weight = model.get_parameter(name).data[layer].view(-1)
        if isinstance(design.position, aq.URPE) and name in ("q_weight", "k_weight"):
            assert not weight.any(), "gains gather, without scores"
            continue
        felt = 0
        for at in weight.nonzero():
            weight[at] *= -1
            felt += not torch.equal(state(model, x), right)
            weight[at] *= -1
        assert felt > 0, name
    assert torch.equal(state(model, x), right)
