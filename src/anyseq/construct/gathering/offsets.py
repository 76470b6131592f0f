"""URPE: one layer of gains gathers the sequence and gives every token its position.

There is a head for each offset r, with gain 1 at r and 0 elsewhere, and no scores: token i gets w
x_(i-r) from it, w = 1/(number of keys of i), and w from a constant feature, if it attends to i-r at
all. Random multiples of the latter add up to one number for each position, known when the network
is built (see `anyseq.construct.gathering.places`); `into_colours` makes one-hot positions of the
numbers. Then slot i-r of token i takes 1/w times what came by head r: three roundings, within
4·2^-53 of x.
"""

from __future__ import annotations

import torch

from anyseq.base import ZERO_WEIGHT_GAP, generator
from anyseq.construct.gadgets import Units, into_colours
from anyseq.construct.gathering.blocks import Blocks
from anyseq.construct.gathering.heads import GAIN, Heads
from anyseq.construct.gathering.hops import closed, own_slots
from anyseq.construct.gathering.places import Classes, start_colours
from anyseq.construct.gathering.room import Room
from anyseq.design import Design
from anyseq.nn import AttentionLayers, inside_attention
from anyseq.positions import URPE, Absolute, ALiBi, Sinusoidal

_TRIES = 12


def sees_enough(design: Design, wanted: str) -> bool:
    """Whether in the first layer every token attends to all that it needs, in one pattern,
    evenly."""
    position, first = design.position, design.cycle[0]
    if not isinstance(position, URPE) or isinstance(position.base, Absolute | Sinusoidal | ALiBi):
        return False
    if len(first.heads()) > 1:
        return False
    seen = first.mask(design.tokens + design.bos)[design.bos :, design.bos :]
    seen = seen | torch.eye(design.tokens, dtype=torch.bool)
    return bool((seen if wanted == "all" else seen | ~seen.new_ones(seen.shape).tril()).all())


def offset_heads(design: Design, features: int) -> Heads:
    """A head for each offset; its values are x and a constant."""
    size = features + 1
    count = 2 * (design.tokens + design.bos) - 1
    return Heads(design, period=1, tellers=count, count=count, size=size + size % 2)


def gather_by_offsets(heads: Heads, blocks: Blocks, room: Room) -> bool:
    """Write the layers; False, and nothing written, if one layer does not tell all positions
    apart."""
    design, rng = heads.design, generator(0)
    layer = _layer(heads, room)
    gain = offset_gain(heads)
    z = torch.zeros(heads.vertices, room.width, dtype=torch.float64)
    z[torch.arange(heads.vertices), room.position_at + torch.tensor(start_colours(design))] = 1.0
    z[design.bos :, : room.features] = 1.0  # so that weights arrive
    constant = [heads.rows(head).start + room.features for head in range(heads.count)]
    rounds = []
    for _ in range(_TRIES):
        mix = torch.randn(heads.count, generator=rng, dtype=torch.float64)
        layer.o_weight[0, room.number_at, constant] = mix
        seen = heads.run(design.cycle[0], layer, gain, z)
        rounds.append((Classes.of(seen[:, room.number_at]), mix, seen))
    classes, mix, seen = max(rounds, key=lambda found: found[0].quality)
    if len(classes.order) < heads.vertices:
        return False
    layer.o_weight[0, room.number_at, constant] = mix
    steps, places = into_colours(
        form={room.number_at: 1.0},
        numbers=classes.ends,
        into=[room.position_at + name for name in classes.order],
        old=[room.position_at + name for name in range(1 + design.bos)],
        number_at=room.number_at,
        steps_at=room.steps_at,
    )
    blocks.attend(layer, steps)
    blocks.think(places)
    blocks.think(own_slots(heads, room))
    blocks.think(_taken(heads, room, seen))
    return True


def offset_gain(heads: Heads) -> torch.Tensor | None:
    """The table of gains that all layers share, if the design has one."""
    shared = inside_attention(heads.design.position)[1]
    return torch.eye(heads.count, dtype=torch.float64) if shared else None


def _layer(heads: Heads, room: Room) -> AttentionLayers:
    layer, bos = heads.blank(room.width), heads.design.bos
    for head in range(heads.count):
        first = heads.rows(head).start
        for feature in range(room.features):
            layer.v_weight[0, first + feature, feature] = 1.0
            layer.o_weight[0, _arrival(room, head, feature), first + feature] = 1.0
        layer.v_weight[0, first + room.features, room.position_at : room.position_at + bos + 1] = 1
    if GAIN in layer.inside:
        layer.inside[GAIN].copy_(torch.eye(heads.count))
    if layer.sink is not None:
        layer.sink.fill_(-2 * ZERO_WEIGHT_GAP)
    return layer


def _taken(heads: Heads, room: Room, seen: torch.Tensor) -> Units:
    """seen: what arrives where all x are 1."""
    units, bos = Units(), heads.design.bos
    for i in range(room.tokens):
        shut = closed(heads, room, {i + bos})
        for j in range(room.tokens):
            head = i - j + heads.vertices - 1
            for feature in range(room.features):
                arrival = _arrival(room, head, feature)
                weight = float(seen[i + bos, arrival])
                if weight > 0 and i != j:
                    units.add({arrival: 1.0} | shut, {room.slot(j, feature): 1 / weight})
    units.clear(range(_arrival(room, 0, 0), _arrival(room, heads.count, 0)))
    return units


def _arrival(room: Room, head: int, feature: int) -> int:
    """Where a head's share of x arrives: beyond slots, numbers and steps."""
    slots = room.tokens * room.features
    return (
        room.slots_at
        + max(slots, room.slots_at - room.position_at)
        + head * room.features
        + feature
    )
