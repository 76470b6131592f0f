"""Refinement of all sequences at once: which (sequence, position) pairs a design tells apart.

S sequences of cells are given, each position with a whole number. In a round one random layer
brings every position of every sequence a number `mixed` (`draw`), and with 2^e above twice the
range of these

    key = mixed + 2^e · own number.

Pairs whose keys lie within `gap` of each other, or are linked by such, form a *class*; `gap` is 32
times what rounding can do to a key, so pairs that no network tells apart are never torn apart, and
the layer, run again, finds each key within gap/16 of the interval of its class, whatever the
machine. Windows around the intervals (gap/4 on each side, ramps as wide) give each class a new
number, at random, and the next round begins. Classes never merge again, as own numbers differ.

By Theorem 2 almost every choice of weights tells apart, in a round, what any heads can. Random
weights are therefore tried, not relied on: pairs told apart are counted, and so are the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from anyseq.base import UNIT_ROUNDOFF, generator, power_of_two_at_least
from anyseq.construct.gathering import Heads
from anyseq.construct.methods.boltzmann.refining.draw import Wires, draw_layer, rounding
from anyseq.nn import AttentionLayers

_MOST_TRIES = 8  # further draws of a layer; the best is taken


@dataclass(frozen=True, eq=False)
class Round:
    """One layer, and the classes that it makes, by ascending keys.

    turn: its place in the cycle of patterns. shift: 2^e.
    low, high: (classes,) the intervals of their keys; any two are `gap` or more apart.
    classes: (S, positions) the class of each pair.
    numbers: (classes,) their numbers in the next round.
    """

    turn: int
    layer: AttentionLayers
    shift: float
    gap: float
    low: torch.Tensor
    high: torch.Tensor
    classes: torch.Tensor
    numbers: torch.Tensor

    @property
    def id_bits(self) -> int:
        """log2 of the largest key in units of gap/16."""
        largest = float(self.high[-1].abs().maximum(self.low[0].abs()))
        return int(power_of_two_at_least(16 * (1 + largest) / self.gap)).bit_length() - 1


def refine(
    heads: Heads, wires: Wires, width: int, gain: torch.Tensor | None, start: torch.Tensor
) -> Iterator[Round]:
    """Rounds until the patterns of a whole cycle bring nothing new; one at least.

    start: (S, positions) int64, the numbers at the beginning.
    """
    rng, numbers, turn, idle = generator(0), start, 0, 0
    known, cycle = len(start.unique()), len(heads.design.cycle)
    first = True
    while idle < cycle:
        best = _round(heads, wires, width, gain, numbers, turn, rng)
        for _ in range(_MOST_TRIES):
            other = _round(heads, wires, width, gain, numbers, turn, rng)
            same = len(other.low) == len(best.low)
            best = max(best, other, key=lambda found: (len(found.low), -found.gap))
            if same:  # most choices tell apart all that can be told apart, and two agree
                break
        turn += 1
        if len(best.low) > known or first:
            yield best
            numbers, known, first = best.numbers[best.classes], len(best.low), False
            idle = 0
        else:
            idle += 1


def _round(
    heads: Heads,
    wires: Wires,
    width: int,
    gain: torch.Tensor | None,
    numbers: torch.Tensor,
    turn: int,
    rng: torch.Generator,
) -> Round:
    top = int(numbers.max())
    layer = draw_layer(heads, wires, width, top, rng)
    z = torch.zeros(*numbers.shape, width, dtype=torch.float64)
    z[..., wires.number_at], z[..., wires.one_at] = numbers.double(), 1.0
    pattern = heads.design.cycle[turn % len(heads.design.cycle)]
    mixed = heads.run(pattern, layer, gain, z)[..., wires.mixed_at]
    shift = power_of_two_at_least(2 * float(mixed.max() - mixed.min()) + 2.0**-20)
    keys = (mixed + shift * numbers).flatten()
    # a key is a sum of two, and so is its difference from the end of a window
    off = rounding(heads, wires, layer, gain, top)
    off += 4 * UNIT_ROUNDOFF * (shift * top + float(mixed.abs().max()))
    gap = power_of_two_at_least(32 * off)
    ascending, order = keys.sort()
    begins = torch.ones(len(keys), dtype=torch.bool)
    begins[1:] = ascending.diff() >= gap
    low = ascending[begins]
    high = ascending[begins.roll(-1)]
    classes = torch.empty_like(order)
    classes[order] = begins.cumsum(0) - 1
    return Round(
        turn=turn,
        layer=layer,
        shift=shift,
        gap=gap,
        low=low,
        high=high,
        classes=classes.view_as(numbers),
        numbers=torch.randperm(len(low), generator=rng),
    )
