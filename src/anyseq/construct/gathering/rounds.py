"""Positions found out, one block a round: numbers become one-hot colours in a single half.

`anyseq.construct.gathering.places` finds heads that give positions different numbers. Here the
feature that takes the number of a round holds c = 3·2^(a-1) from the start, and nothing else, so
that what arrives is c plus the number, rounded to a multiple of 2^(a-52). Let numbers, offsets of
old colours and middles of gaps, all multiples of that, be below 2^(a-3) together, and s a power of
two, 4/(least gap) or more. Then in

    t_k = s (c + number + offset) - s (c + m_k) + 1/2

any partial sum is a multiple of s 2^(a-52) and below s 2^(a+1): nothing rounds, in any order. So

    S_k = ReLU(t_k) - ReLU(t_k - 1)

is exactly 0 below gap k and exactly 1 above it, and S_(k-1) - S_k is the colour of class k,
exactly: with one s for all k its four ReLUs are multiples of s 2^(a-52) and add up to less than
s 2^(a+1).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import torch

from anyseq.base import generator, power_of_two_at_least
from anyseq.construct.gadgets import Units
from anyseq.construct.gathering.blocks import Blocks
from anyseq.construct.gathering.heads import Heads
from anyseq.construct.gathering.known import Space
from anyseq.construct.gathering.places import Round, next_round, start_colours
from anyseq.construct.gathering.room import Room
from anyseq.errors import ConstructionFault


def find_places_quickly(
    heads: Heads, blocks: Blocks, space: Space, gain: torch.Tensor | None
) -> dict[str, torch.Tensor]:
    """Write a block for each round; the vectors at the input: colours, and c for every round."""
    design, rng = heads.design, generator(0)
    colours = start_colours(design)
    start = torch.zeros(space.width, dtype=torch.float64)
    room = Room(
        tokens=design.tokens,
        features=space.features,
        width=space.width,
        hidden=0,  # nothing of these sizes is built here
        position_at=space.places_at,
        slots_at=space.numbers_at,
    )
    for number_at in range(space.numbers_at, space.width):
        if len(set(colours)) == heads.vertices:
            break
        found = next_round(heads, replace(room, slots_at=number_at), gain, colours, blocks, rng)
        units, start[number_at] = _colours(found, colours, room.position_at, number_at)
        blocks.attend(found.layer, units)
        colours = found.classes.names
    vectors = {"constant": start.clone()}
    vectors["constant"][room.position_at + design.bos] = 1.0
    if design.bos:
        vectors["bos"] = start.clone()
        vectors["bos"][room.position_at] = 1.0
    return vectors


def _colours(found: Round, old: list[int], position_at: int, number_at: int) -> tuple[Units, float]:
    """The half of one round, and c."""
    ends = found.classes.ends
    gaps = [(low[1], high[0]) for low, high in pairwise(ends)]
    scale = power_of_two_at_least(4 / min(high - low for low, high in gaps))
    size = max(abs(end) for pair in ends for end in pair) + sum(map(abs, found.form.values()))
    whole = power_of_two_at_least(16 * size)
    unit = whole * 2.0**-52
    if scale * unit > 2.0**-4:
        raise ConstructionFault(f"gaps of {4 / scale:.3g} between numbers of {size:.3g}")
    c = 1.5 * whole
    units = Units()
    units.clear([position_at + name for name in sorted(set(old))])
    read = {feature: scale * weight for feature, weight in found.form.items()}
    for k, (low, high) in enumerate(gaps):
        middle = round((low + high) / 2 / unit) * unit
        below, above = (position_at + name for name in found.classes.order[k : k + 2])
        for shift, sign in ((0.5, 1.0), (-0.5, -1.0)):
            bias = shift - scale * (c + middle)
            units.add(read, {below: -sign, above: sign}, bias)
    first = position_at + found.classes.order[0]
    units.add({number_at: 1.0}, {number_at: -1.0})
    units.add({}, {first: 1.0}, 1.0)  # all steps are off in the first class
    return units, c
