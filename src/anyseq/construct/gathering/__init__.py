"""Gathering: after it every token knows its position and holds the sequence, in any design that
can (docs/theorems.md, Theorem 5.1)."""

from anyseq.construct.gathering.gather import Gathering, gather
from anyseq.construct.gathering.room import Room
from anyseq.construct.gathering.waves import WAVE_ROUNDING

__all__ = ["WAVE_ROUNDING", "Gathering", "Room", "gather"]
