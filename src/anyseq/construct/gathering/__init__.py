"""Gathering: afterwards every token has its position and the whole sequence, in any design that can
(docs/theorems.md, Theorem 1)."""

from anyseq.construct.gathering.direct import Direct, gather_directly
from anyseq.construct.gathering.gather import SLOT_ROUNDING, Gathering, gather, least_width
from anyseq.construct.gathering.heads import GAIN, Heads, base_of
from anyseq.construct.gathering.known import Reader
from anyseq.construct.gathering.room import Room

__all__ = [
    "GAIN",
    "SLOT_ROUNDING",
    "Direct",
    "Gathering",
    "Heads",
    "Reader",
    "Room",
    "base_of",
    "gather",
    "gather_directly",
    "least_width",
]
