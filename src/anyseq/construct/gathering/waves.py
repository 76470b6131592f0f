"""Positions from sinusoidal waves, which the network adds to every feature, also to x.

A random direction through all features that hold no x gives each position a number, known when the
network is built; the waves are cleared there, exactly, and `into_colours` makes one-hot positions
of the numbers. These then take the waves off the features of x: x + E - E, within 4·2^-53 of x,
since neither sum is above 2.
"""

from __future__ import annotations

import torch

from anyseq.base import generator
from anyseq.construct.gadgets import Units, into_colours
from anyseq.construct.gathering.blocks import Blocks
from anyseq.construct.gathering.places import Classes
from anyseq.construct.gathering.room import Room
from anyseq.errors import CannotApproximate
from anyseq.positions import Sinusoidal

_TRIES = 64


def read_waves(position: Sinusoidal, vertices: int, blocks: Blocks, room: Room) -> None:
    """One-hot positions in the features from position_at on; x as it came."""
    waves = position.table(torch.arange(vertices, dtype=torch.float64), room.width)
    free = [j for j in range(room.features, room.width) if j != room.number_at]
    rng = generator(0)
    directions = torch.randn(_TRIES, len(free), generator=rng, dtype=torch.float64)
    found = [Classes.of(waves[:, room.number_at] + waves[:, free] @ way) for way in directions]
    best = max(range(_TRIES), key=lambda k: found[k].quality)
    classes = found[best]
    if len(classes.order) < vertices:
        raise CannotApproximate(
            f"the waves of {position} do not tell {vertices} positions apart by more than rounding"
        )
    form = dict(zip(free, directions[best].tolist(), strict=True))
    read = Units()
    read.add(form, {room.number_at: 1.0})
    read.add({j: -weight for j, weight in form.items()}, {room.number_at: -1.0})
    read.clear(free, signed=True)
    blocks.think(read)
    for units in into_colours(
        form={room.number_at: 1.0},
        numbers=classes.ends,
        into=[room.position_at + name for name in classes.order],
        old=[],
        number_at=room.number_at,
        steps_at=room.steps_at,
    ):
        blocks.think(units)
    still = Units()
    for vertex in range(vertices):
        off = {f: -float(waves[vertex, f]) for f in range(room.features)}
        still.add({room.position_at + vertex: 1.0}, off)
    blocks.think(still)
