"""From the input to tokens that have their position and the whole sequence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from anyseq.base import UNIT_ROUNDOFF, generator
from anyseq.construct.gathering.blocks import Blocks
from anyseq.construct.gathering.heads import Heads, base_of
from anyseq.construct.gathering.hops import all_at_once, hop, own_slots, sees_all
from anyseq.construct.gathering.offsets import (
    gather_by_offsets,
    offset_gain,
    offset_heads,
    sees_enough,
)
from anyseq.construct.gathering.places import find_places
from anyseq.construct.gathering.room import Room
from anyseq.construct.gathering.waves import read_waves
from anyseq.design import Design
from anyseq.nn import Layers
from anyseq.positions import Absolute, Place, Sinusoidal

SLOT_ROUNDING = 4 * UNIT_ROUNDOFF
"""How far slots may be off with sinusoidal positions or gains; else they are exact."""

_TELLERS = 8  # heads that tell positions apart, for each pattern of a layer


@dataclass(frozen=True)
class Gathering:
    """The layers, and what `Stack.of` is given besides: vectors for the input, the shared gains."""

    heads: Heads
    runs: tuple[Layers, ...]
    vectors: Mapping[str, torch.Tensor]

    @property
    def layers(self) -> int:
        return sum(map(len, self.runs))

    @property
    def attention_layers(self) -> int:
        return sum(len(run) for run in self.runs if run.attention)

    @property
    def feedforward_layers(self) -> int:
        return sum(len(run) for run in self.runs if run.feedforward)

    @property
    def kinds(self) -> dict[str, Any]:
        """The entries of the StackShape of a network that starts with these layers, besides its
        sizes."""
        gain = self.vectors.get("gain")
        return {
            "positions": "position" in self.vectors,
            "constant": "constant" in self.vectors,
            "bos": "bos" in self.vectors,
            "sinks": self.heads.design.sinks,
            "gains": 0 if gain is None else gain.shape[1],
            "inside": tuple(self.heads.tables.items()),
        }


def least_width(design: Design, features: int, slots_at: int, wanted: str) -> int:
    """Slots, or numbers and steps; then slots on their way, or with gains all offsets of x."""
    vertices, slots = design.tokens + design.bos, design.tokens * features
    if wanted == "all" and sees_all(design) is not None:
        return slots_at + slots
    offsets = (2 * vertices - 1) * features * (Place.GAIN in design.position.acts_in)
    return slots_at + max(slots, vertices) + max(slots, offsets)


def gather(design: Design, room: Room, wanted: str) -> Gathering:
    """After these layers token i has a 1 in feature position_at + bos + i and no other position,
    x_j in slot j for every j it wants ("all", or j <= i for "causal"), 0 or a number of [0, 1] in
    other slots, and 0 everywhere else."""
    base = base_of(design.position)
    told = isinstance(base, Absolute | Sinusoidal)
    blocks = Blocks(room.width, room.hidden)
    if sees_enough(design, wanted):
        heads = offset_heads(design, room.features)
        if gather_by_offsets(heads, blocks, room):
            vectors = _vectors(design, heads, room, offset_gain(heads))
            return Gathering(heads, tuple(blocks.runs), vectors)
    heads = Heads.of(design, room.features, 0 if told else _TELLERS)
    if wanted == "all" and sees_all(design) is not None:
        all_at_once(heads, blocks, room)
        return Gathering(heads, tuple(blocks.runs), _vectors(design, heads, room, None))
    gain = heads.shared_gain(generator(0))
    if isinstance(base, Sinusoidal):
        read_waves(base, heads.vertices, blocks, room)
    elif not told:
        find_places(heads, blocks, room, gain)
    blocks.think(own_slots(heads, room))
    hop(heads, blocks, room, wanted)
    if not any(run.attention for run in blocks.runs):  # a single token: nothing to move
        blocks.runs.append(Layers(attention=heads.blank(room.width)))
    return Gathering(heads, tuple(blocks.runs), _vectors(design, heads, room, gain))


def _vectors(
    design: Design, heads: Heads, room: Room, gain: torch.Tensor | None
) -> dict[str, torch.Tensor]:
    vectors: dict[str, torch.Tensor] = {} if gain is None else {"gain": gain}
    base = base_of(design.position)
    flag = torch.zeros(2, room.width, dtype=torch.float64)
    if isinstance(base, Absolute):
        vectors["position"] = torch.zeros(heads.vertices, room.width, dtype=torch.float64)
        places = vectors["position"][:, room.position_at : room.position_at + heads.vertices]
        places.copy_(torch.eye(heads.vertices, dtype=torch.float64))
    elif not isinstance(base, Sinusoidal):  # the colours at the start
        flag[0, room.position_at] = flag[1, room.position_at + design.bos] = 1.0
        vectors["constant"] = flag[1]
    if design.bos:
        vectors["bos"] = flag[0]
    return vectors
