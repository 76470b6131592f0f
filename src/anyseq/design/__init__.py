"""Design: a description of everything about attention that decides what it can express."""

from anyseq.design.design import BLOCK_NORMS, USUAL_TOKENS, Design, shortest_cycle
from anyseq.design.layer import Layer
from anyseq.design.mixers import (
    ATTENTION,
    Average,
    Bilinear,
    Convolution,
    LinearAttention,
    Mixer,
    Recurrence,
    parse_mixer,
    resolve_mixer,
)
from anyseq.design.sentence import parse_design
from anyseq.design.words import layer_text, parse_layer, positions_text, unusual_text

__all__ = [
    "ATTENTION",
    "BLOCK_NORMS",
    "USUAL_TOKENS",
    "Average",
    "Bilinear",
    "Convolution",
    "Design",
    "Layer",
    "LinearAttention",
    "Mixer",
    "Recurrence",
    "layer_text",
    "parse_design",
    "parse_layer",
    "parse_mixer",
    "positions_text",
    "resolve_mixer",
    "shortest_cycle",
    "unusual_text",
]
