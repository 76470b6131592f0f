"""The layout of features in a gathering network."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Room:
    """Features: input/output | positions, one-hot, BOS first | slots | anything else.

    Slot (j, f) of token j's feature f is slots_at + j·features + f. While positions are found out,
    the slots and what follows hold numbers and steps; while slots move, what follows them holds the
    slots on their way.
    """

    tokens: int
    features: int
    width: int
    hidden: int
    position_at: int
    slots_at: int

    def slot(self, token: int, feature: int) -> int:
        return self.slots_at + token * self.features + feature

    def stage(self, token: int, feature: int) -> int:
        """Where slot (token, feature) arrives."""
        return self.slot(token, feature) + self.tokens * self.features

    @property
    def number_at(self) -> int:
        return self.slots_at

    @property
    def steps_at(self) -> int:
        return self.slots_at + 1
