"""A design in one line."""

from __future__ import annotations

from anyseq.design import Design
from anyseq.patterns import pattern_text
from anyseq.positions import position_text
from anyseq.probability import Softmax, prob_map_text


def describe(design: Design) -> str:
    """Tokens, patterns, position, and whatever is not as usual."""
    patterns = " then ".join(map(pattern_text, design.cycle))
    position = position_text(design.position)
    parts = [f"{design.tokens:,} tokens", patterns]
    parts.append("no positions" if position == "none" else f"{position} positions")
    if design.probability != Softmax():
        parts.append(prob_map_text(design.probability))
    parts += ["BOS"] * design.bos + ["sinks"] * design.sinks
    parts += ["no feed-forward"] * (not design.feedforward)
    if design.final_norm is not None:
        parts.append(f"final {design.final_norm}")
    if design.depth is not None:
        parts.append(f"depth {design.depth}")
    return ", ".join(parts)
