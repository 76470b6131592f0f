"""Gathering: after it every token knows its position and holds the sequence, in any design that
can (docs/theorems.md, Theorem 5.1)."""

from anyseq.construct.gathering.gather import SLOT_ROUNDING, Gathering, gather, least_width
from anyseq.construct.gathering.heads import GAIN, Heads, base_of
from anyseq.construct.gathering.room import Room

__all__ = [
    "GAIN",
    "SLOT_ROUNDING",
    "Gathering",
    "Heads",
    "Room",
    "base_of",
    "gather",
    "least_width",
]
