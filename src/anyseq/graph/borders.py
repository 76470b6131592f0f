"""The first and the last key that each vertex attends to: mostly enough to identify its
position."""

from __future__ import annotations

import numpy as np
import torch

from anyseq.design import Design, Recurrence
from anyseq.graph.edges import Array, all_see_themselves, row_blocks, vertices
from anyseq.patterns import Pattern
from anyseq.positions import URPE, ALiBi, RelativeBias, Rotary, base_of
from anyseq.probability import Softmax


def told_by_borders(design: Design) -> bool:
    """Whether a quick test shows that the first layer tells all tokens apart. (False says nothing.)

    A gain for each offset shows which offsets are visible (equal scores give weight to all; with
    ALiBi only softmax leaves no visible key without weight), the largest and the smallest among
    them. A bias for each offset shows where BOS is, to a token that attends to it and to itself. A
    recurrence counts the tokens.
    """
    size, layer = vertices(design), design.layer_cycle[0]
    if isinstance(layer.mixer, Recurrence):
        return True
    base, heads = base_of(layer.position), layer.sees.heads()
    if not layer.attends or any(head.differs for head in heads):
        return False
    if isinstance(layer.position, URPE):
        if isinstance(base, ALiBi) and not isinstance(layer.probability, Softmax):
            return False
        seen = np.concatenate([_offsets(head, size) for head in heads], axis=1)[design.bos :]
        return len(np.unique(seen, axis=0)) == design.tokens
    if not (design.bos and isinstance(base, RelativeBias | Rotary)):
        return False
    zero, index = torch.zeros((), dtype=torch.int64), torch.arange(size)
    bos_is_seen = bool(heads[0].at(size)(zero, zero, index, zero).all())
    return bos_is_seen and all_see_themselves(layer.sees, size)


def keys_seen(pattern: Pattern, size: int) -> Array:
    """(size,) how many keys each vertex attends to, in a pattern that is the same for all heads."""
    allowed = pattern.offsets(size)
    if allowed is not None:
        # i sees the offsets from i - (size - 1) to i
        total = np.append(0, np.cumsum(allowed.numpy()))
        index = np.arange(size)
        counts: Array = total[index + size] - total[index]
        return counts
    counts = np.zeros(size, dtype=np.int64)
    for rows, _, mask in row_blocks(pattern, size):
        counts[rows] = np.count_nonzero(mask, axis=1)
    return counts


def _offsets(pattern: Pattern, size: int) -> Array:
    """(size, 2) int64: the largest and the smallest i - j that i attends to; (size, -size) if
    none."""
    seen = np.tile(np.array([size, -size]), (size, 1))
    allowed = pattern.offsets(size)
    if allowed is not None:
        offsets = np.flatnonzero(allowed.numpy()) - (size - 1)
        index = np.arange(size)
        # i sees the offsets from i - (size - 1) to i
        last = np.searchsorted(offsets, index, side="right") - 1
        first = np.searchsorted(offsets, index - (size - 1))
        some = first <= last
        seen[some] = np.stack([offsets[last[some]], offsets[first[some]]], axis=1)
        return seen
    for rows, columns, mask in row_blocks(pattern, size):
        some = np.asarray(mask.any(axis=1))
        first = columns[mask.argmax(axis=1)]
        last = columns[::-1][mask[:, ::-1].argmax(axis=1)]
        seen[rows[some]] = np.stack([rows - first, rows - last], axis=1)[some]
    return seen
