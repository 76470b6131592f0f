"""Where a design's tokens get their positions from, in words."""

from __future__ import annotations

import numpy as np

from anyseq.design import Bilinear, Convolution, Design, Recurrence
from anyseq.graph import Refinement, refine
from anyseq.positions import Place, position_text


def positions_from(design: Design) -> str:
    """What tells places apart when all tokens are identical, and by which layer."""
    if design.tokens == 1:
        return "only one token"
    if Place.INPUT in design.input_position.acts_in:
        return f"{position_text(design.input_position)} at the input"
    found = refine(design)
    if found.discrete:
        return f"found by layer {found.rounds:,}, from {_joined(_sources(design))}"
    return _not_all(found, design.tokens)


def _not_all(found: Refinement, tokens: int) -> str:
    kinds = len(np.unique(found.limit))
    if kinds == tokens:
        return "not known"
    if kinds == 1:
        return "none: identical tokens stay identical"
    return f"in part: identical tokens fall into {kinds:,} kinds"


def _sources(design: Design) -> list[str]:
    """The parts of a design that are not the same for all identical tokens."""
    layers = design.layer_cycle[: design.depth]
    inside = [layer.position.acts_in for layer in layers if layer.attends]
    found = {
        "BOS": design.bos,
        "gains": any(Place.GAIN in places for places in inside),
        "sinks": any(layer.sinks for layer in layers),
        "a recurrence": any(isinstance(layer.mixer, Recurrence) for layer in layers),
        "a convolution": any(isinstance(layer.mixer, Convolution) for layer in layers),
        "a bilinear map": any(isinstance(layer.mixer, Bilinear) for layer in layers),
        "offsets": any(places - {Place.GAIN} for places in inside),
    }
    return [name for name, there in found.items() if there] or ["the tokens attended to"]


def _joined(words: list[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
