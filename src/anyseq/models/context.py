"""The length at which a model is read unless one is given: the one it was made for, or a shorter
one where its patterns are too costly at that length."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from anyseq.design import Design
from anyseq.graph import connections_of
from anyseq.models.declared import said

LONGEST = 1 << 19
"""For more tokens the graph of a design takes too much memory."""

_NAMES = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "n_ctx",
    "max_target_positions",
    "max_source_positions",
    "max_encoder_position_embeddings",
)
_OF_ENCODERS = ("max_source_positions", "max_encoder_position_embeddings")
_FOLLOWED = (4096, 2048, 1024)  # lengths for patterns that are followed pair by pair
_PAIRS = 2_000_000  # of a pattern


def trained_length(config: Any, part: str) -> int | None:
    """The length that a config declares; part: "encoder" or "decoder", or "" if there is one."""
    names = (*_OF_ENCODERS, *_NAMES) if part == "encoder" else _NAMES
    values = (said(config, name) for name in names)
    return next((one for one in values if isinstance(one, int) and one > 0), None)


def followed_length(design: Design) -> int:
    """The number of tokens for which a design is judged: all, if its patterns depend on i - j
    alone, which is cheap at any length; otherwise few enough that not too many pairs are
    connected."""
    fixed = any(pattern.natural_length is not None for pattern in design.cycle)
    if fixed or all(pattern.offsets(design.size) is not None for pattern in design.cycle):
        return design.tokens
    shorter = [length for length in _FOLLOWED if length < design.tokens]
    if design.tokens <= _FOLLOWED[0]:
        shorter.insert(0, design.tokens)
    return next((one for one in shorter if _is_cheap(replace(design, tokens=one))), shorter[-1])


def _is_cheap(design: Design) -> bool:
    return max(connections_of(design)) <= _PAIRS
