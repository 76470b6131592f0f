"""Sets as bits of words."""

from __future__ import annotations

import numpy as np

from anyseq.graph.edges import Array

_HALF_WORDS = np.arange(1 << 16, dtype=np.uint16)
_COUNTS = np.unpackbits(_HALF_WORDS.view(np.uint8).reshape(-1, 2), axis=1).sum(1, dtype=np.uint8)


def members(words: Array) -> Array:
    """(..., words) of 64 bits -> (...), how many bits are 1. (numpy counts bits from 2.0 on.)"""
    sixteen = np.ascontiguousarray(words).view(np.uint16)
    counts: Array = _COUNTS[sixteen].sum(-1, dtype=np.int64)
    return counts


def unpack(words: Array) -> Array:
    """(..., words) of 64 bits -> (..., 64 words) bool, the lowest bit first."""
    little = words.astype("<u8").view(np.uint8)
    return np.unpackbits(little, axis=-1, bitorder="little").astype(bool)
