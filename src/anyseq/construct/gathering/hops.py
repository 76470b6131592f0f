"""How slots move: from token to token, along the patterns, exactly.

Token j starts with x_j in slot j: with p the one-hot position,

    slot j += ReLU(x - 2 Σ_(i≠j) p_i):

for token j the sum is of zeros and x passes exactly; for others x - 2 < 0. In a hop copies of slots
arrive on a stage (`anyseq.construct.gathering.hop_layer`); the tokens that need one take it, in the
way x was taken above, and the stage is cleared.

Where every token attends to every token, and has its position from the start, one layer does it
all: by the head of slot j all take x from token j, j too, and there is no need of a stage.
"""

from __future__ import annotations

import torch

from anyseq.construct.gadgets import Units
from anyseq.construct.gathering.blocks import Blocks
from anyseq.construct.gathering.heads import Heads
from anyseq.construct.gathering.hop_layer import hop_layer
from anyseq.construct.gathering.room import Room
from anyseq.construct.gathering.schedule import Taking, asked_slots, first_sources
from anyseq.design import Design
from anyseq.errors import ConstructionFault
from anyseq.positions import Absolute


def own_slots(heads: Heads, room: Room) -> Units:
    """Every token's x into its own slot; then its features are cleared, for the output."""
    units = Units()
    for token in range(room.tokens):
        shut = closed(heads, room, {token + heads.design.bos})
        for feature in range(room.features):
            units.add({feature: 1.0} | shut, {room.slot(token, feature): 1.0})
    units.clear(range(room.features), signed=True)
    return units


def all_at_once(heads: Heads, blocks: Blocks, room: Room) -> None:
    """Every token's x into its slot in all tokens, where `sees_all`; then x is cleared."""
    bos, part = heads.design.bos, sees_all(heads.design)
    assert part is not None
    takings = [
        Taking(slot, part, dict.fromkeys(range(bos, heads.vertices), slot + bos))
        for slot in range(room.tokens)
    ]
    units = Units()
    units.clear(range(room.features), signed=True)
    layer = hop_layer(
        heads,
        takings,
        _places(heads, room),
        room.features,
        lambda _, feature: feature,
        lambda taking, feature: room.slot(taking.slot, feature),
    )
    blocks.attend(layer, units)


def sees_all(design: Design) -> int | None:
    """The part of the first layer's pattern by which all tokens attend to all tokens, if there is
    one and they have their positions."""
    if not isinstance(design.position, Absolute):
        return None
    for part, pattern in enumerate(design.cycle[0].heads()):
        if bool(pattern.mask(design.tokens + design.bos)[design.bos :, design.bos :].all()):
            return part
    return None


def hop(heads: Heads, blocks: Blocks, room: Room, wanted: str) -> None:
    """Hops until every token has the slots it wants: "all", or for "causal" those before it."""
    design, bos = heads.design, heads.design.bos
    masks = [[part.mask(heads.vertices) for part in pattern.heads()] for pattern in design.cycle]
    held = [{vertex - bos} if vertex >= bos else set() for vertex in range(heads.vertices)]
    asked = asked_slots(design, wanted)
    waited = 0
    while any(not want <= have for want, have in zip(asked, held[bos:], strict=True)):
        takings = _takings(masks[len(blocks) % len(masks)], held, room.tokens)
        if takings:
            layer = hop_layer(
                heads,
                takings,
                _places(heads, room),
                room.features,
                lambda taking, feature: room.slot(taking.slot, feature),
                lambda taking, feature: room.stage(taking.slot, feature),
            )
            blocks.attend(layer, _taken(heads, room, takings))
            for taking in takings:
                for vertex in taking.source:
                    held[vertex].add(taking.slot)
            waited = 0
        else:
            blocks.wait()
            waited += 1
            if waited > len(masks):
                raise ConstructionFault(f"{design}: slots do not reach every token")


def _places(heads: Heads, room: Room) -> torch.Tensor:
    """(vertices, width): one-hot."""
    return torch.eye(heads.vertices, room.width, dtype=torch.float64).roll(room.position_at, 1)


def _takings(masks: list[torch.Tensor], held: list[set[int]], tokens: int) -> list[Taking]:
    """For each slot the pattern by which most vertices can get it: there is one stage for all."""
    takings = []
    for slot in range(tokens):
        has = torch.tensor([slot in have for have in held])
        choices = []
        for part, mask in enumerate(masks):
            offers = mask & has & ~has[:, None]
            choices.append(Taking(slot, part, first_sources(offers)))
        best = max(choices, key=lambda taking: len(taking.source))
        if best.source:
            takings.append(best)
    return takings


def _taken(heads: Heads, room: Room, takings: list[Taking]) -> Units:
    units, staged = Units(), []
    for taking in takings:
        shut = closed(heads, room, set(taking.source))
        for feature in range(room.features):
            stage = room.stage(taking.slot, feature)
            units.add({stage: 1.0} | shut, {room.slot(taking.slot, feature): 1.0})
            staged.append(stage)
    units.clear(staged)
    return units


def closed(heads: Heads, room: Room, open_: set[int]) -> dict[int, float]:
    """-2 for all positions but these: closes a ReLU of a number of at most 1."""
    return {room.position_at + v: -2.0 for v in range(heads.vertices) if v not in open_}
