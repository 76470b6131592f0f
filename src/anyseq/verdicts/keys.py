"""The keys that a decoder keeps in its cache."""

from __future__ import annotations

import numpy as np

from anyseq.design import Design, Layer
from anyseq.patterns import Pattern


def keys_kept(design: Design) -> int | None:
    """How many keys a layer keeps, on average over the layers that attend and rounded up, when the
    last token of the design is written; None if some layer sees later tokens, since then there is
    no cache.

    A key is kept from its own token on to the last one that sees it: all of them where attention
    is full, w + 1 in a window of w tokens before one's own.
    """
    counts = [_kept(layer.sees, design.size) for layer in _attending(design)]
    known = [count for count in counts if count is not None]
    if len(known) < len(counts):
        return None
    return -(-sum(known) // len(known)) if known else 0


def _attending(design: Design) -> list[Layer]:
    cycle = design.layer_cycle
    depth = len(cycle) if design.depth is None else design.depth
    return [layer for number in range(depth) if (layer := cycle[number % len(cycle)]).attends]


def _kept(pattern: Pattern, size: int) -> int | None:
    offsets = pattern.offsets(size)
    if offsets is not None:
        seen = np.flatnonzero(offsets.numpy()) - (size - 1)
        return None if seen.min(initial=0) < 0 else int(seen.max(initial=0)) + 1
    i, j = pattern.edges(size).numpy()
    if (j > i).any():
        return None
    last = np.arange(size)
    np.maximum.at(last, j, i)  # a token holds its own key while it is written
    held = np.cumsum(np.bincount(np.arange(size), minlength=size + 1)
                     - np.bincount(last + 1, minlength=size + 1))  # fmt: skip
    return int(held.max())
