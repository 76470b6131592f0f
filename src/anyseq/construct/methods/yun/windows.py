"""The windows of the value map: how far ids are lifted and shrunk, and how wide a window is.

Ids must lie above twice every target, so that a mapped token meets no further window; they should
be small, since the value map rounds at their size; and windows must not touch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from anyseq.base import EXACT_BITS, UNIT_ROUNDOFF, power_of_two_at_least, power_of_two_at_most
from anyseq.construct.contextual.mapping import ContextualMapping


@dataclass(frozen=True)
class Windows:
    """For the ids of `context`, and targets with entries up to `bound`."""

    context: ContextualMapping
    bound: float

    @property
    def ceiling(self) -> float:
        """No target has a larger u·y."""
        return self.bound * sum(self.context.digits)

    @property
    def step(self) -> float:
        """δ."""
        return 1 / self.context.steps

    @cached_property
    def lift(self) -> int:
        """A constant, in units of δ, that puts every id above twice every target."""
        if self.context.largest.bit_length() > EXACT_BITS:
            return 0  # too large already, perhaps for a float
        least = 2 * self.ceiling / self.step + 4
        return 0 if least <= self.context.lowest else int(power_of_two_at_least(least))

    @property
    def lowest(self) -> float:
        """No id is below it."""
        return (self.context.lowest + self.lift) * self.step

    @property
    def largest(self) -> float:
        """The largest id."""
        return (self.context.largest + self.lift) * self.step

    @cached_property
    def scale(self) -> float:
        """A power of two that shrinks the ids before the value map, which rounds at their size.

        Shrinking rounds, too, by up to u·largest. That is at most a quarter of `half_width`, itself
        more than half of min(gap/4, lowest/2)·scale: a token stays on top of its bump, rounded or
        not. The lowest id must stay above twice every target.
        """
        gap = min(self.context.least_gap * self.step, 2 * self.lowest)
        if self.context.least_gap < 64:  # windows must stay wider than the grid of the ids
            return 1.0
        least = max(32 * UNIT_ROUNDOFF * self.largest / gap, 2 * self.ceiling / self.lowest)
        return min(1.0, power_of_two_at_least(least))

    @property
    def half_width(self) -> float:
        """Half the width of a value window: half the gap that is left, and clear of the targets."""
        gap = self.context.least_gap * self.step * self.scale
        left = gap if self.scale == 1.0 else gap / 2
        return power_of_two_at_most(min(left / 2, self.lowest * self.scale / 2))

    @property
    def id_bits(self) -> int:
        """The bits of the largest id in units of δ; and two more if windows have corners between
        those, or what the mapping wants to spare."""
        finer = 2 if self.context.least_gap < 4 else 0
        largest = self.context.largest + self.lift
        return largest.bit_length() + max(finer, self.context.spare_bits)
