"""How slots move: from token to token, along the patterns, exactly.

Token j starts with x_j in slot j: with p the one-hot position,

    slot j += ReLU(x - 2 Σ_(i≠j) p_i):

for token j the sum is of zeros and x passes exactly; for others x - 2 < 0. In a hop a head moves
one slot: token v takes it from u = u(v), a token that v sees and that has it. The scores of keys w,

    λ (2 u(v) w - w²) = λ u(v)² - λ (w - u(v))²,

are highest for w = u(v) and lower by λ or more for others. Only ALiBi's biases are not 0: they lie
between -vertices and 0, and with λ >= ZERO_WEIGHT_GAP + vertices the gap is at least
ZERO_WEIGHT_GAP still. So all others get weight 0, exactly: by softmax and top-k, by hardmax, and by
sparsemax and entmax15, which ask for gaps of 1 and 2. A sink at -2λ gets nothing either. Rotary
turns queries and keys; since they depend on the position only, they are turned back beforehand. So
a copy of the slot arrives, on a stage; those who wanted it take it, in the way x was taken above,
and the stage is cleared.

Where everybody sees everybody, and knows its position from the start, one layer does it all: by the
head of slot j all take x from token j, j too, and there is no need of a stage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from anyseq.base import ZERO_WEIGHT_GAP, power_of_two_at_least
from anyseq.construct.gadgets import Units
from anyseq.construct.gathering.blocks import Blocks
from anyseq.construct.gathering.heads import Heads, base_of
from anyseq.construct.gathering.room import Room
from anyseq.design import Design
from anyseq.errors import ConstructionFault
from anyseq.nn import AttentionLayers
from anyseq.positions import Absolute, Rotary


@dataclass(frozen=True)
class Move:
    """One slot in one hop: by which pattern of the layer, and from whom each vertex takes it."""

    slot: int
    part: int
    source: dict[int, int]


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
    moves = [
        Move(slot, part, dict.fromkeys(range(bos, heads.vertices), slot + bos))
        for slot in range(room.tokens)
    ]
    units = Units()
    units.clear(range(room.features), signed=True)
    blocks.attend(_hop_layer(heads, room, moves, lambda _, feature: feature, room.slot), units)


def sees_all(design: Design) -> int | None:
    """The part of the first layer's pattern by which all tokens see all tokens, if there is one and
    they know their positions."""
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
    asked = [
        set(range(room.tokens if wanted == "all" else vertex - bos + 1)) if vertex >= bos else set()
        for vertex in range(heads.vertices)
    ]
    waited = 0
    while any(not want <= have for want, have in zip(asked, held, strict=True)):
        moves = _moves(masks[len(blocks) % len(masks)], held, room.tokens)
        if moves:
            layer = _hop_layer(heads, room, moves, room.slot, room.stage)
            blocks.attend(layer, _taken(heads, room, moves))
            for move in moves:
                for vertex in move.source:
                    held[vertex].add(move.slot)
            waited = 0
        else:
            blocks.wait()
            waited += 1
            if waited > len(masks):
                raise ConstructionFault(f"{design}: slots do not reach every token")


def _moves(masks: list[torch.Tensor], held: list[set[int]], tokens: int) -> list[Move]:
    """For each slot the pattern by which most vertices can get it."""
    moves = []
    for slot in range(tokens):
        has = torch.tensor([slot in have for have in held])
        choices = []
        for part, mask in enumerate(masks):
            offers = mask & has & ~has[:, None]
            source = {v: int(row.nonzero()[0]) for v, row in enumerate(offers) if bool(row.any())}
            choices.append(Move(slot, part, source))
        best = max(choices, key=lambda move: len(move.source))
        if best.source:
            moves.append(best)
    return moves


def _hop_layer(
    heads: Heads,
    room: Room,
    moves: list[Move],
    start: Callable[[int, int], int],
    arrival: Callable[[int, int], int],
) -> AttentionLayers:
    """start, arrival: where (slot, feature) is read and written."""
    layer = heads.blank(room.width)
    gap = power_of_two_at_least(ZERO_WEIGHT_GAP + heads.vertices)
    base = base_of(heads.design.position)
    for move in moves:
        head = heads.mover(move.slot, move.part)
        rows = heads.rows(head)
        for vertex in range(heads.vertices):
            query = torch.zeros(heads.size, dtype=torch.float64)
            key = torch.zeros(heads.size, dtype=torch.float64)
            query[0], query[1] = 2 * gap * move.source.get(vertex, 0), -gap
            key[0], key[1] = vertex, vertex**2
            if isinstance(base, Rotary):
                query, key = (base.turn(side[None], -vertex)[0] for side in (query, key))
            layer.q_weight[0, rows, room.position_at + vertex] = query
            layer.k_weight[0, rows, room.position_at + vertex] = key
        for feature in range(room.features):
            layer.v_weight[0, rows.start + feature, start(move.slot, feature)] = 1.0
            layer.o_weight[0, arrival(move.slot, feature), rows.start + feature] = 1.0
    if layer.sink is not None:
        layer.sink.fill_(-2 * gap)
    return layer


def _taken(heads: Heads, room: Room, moves: list[Move]) -> Units:
    units, staged = Units(), []
    for move in moves:
        shut = closed(heads, room, set(move.source))
        for feature in range(room.features):
            stage = room.stage(move.slot, feature)
            units.add({stage: 1.0} | shut, {room.slot(move.slot, feature): 1.0})
            staged.append(stage)
    units.clear(staged)
    return units


def closed(heads: Heads, room: Room, open_: set[int]) -> dict[int, float]:
    """-2 for all positions but these: closes a ReLU of a number of at most 1."""
    return {room.position_at + v: -2.0 for v in range(heads.vertices) if v not in open_}
