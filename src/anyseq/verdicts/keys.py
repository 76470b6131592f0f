"""The keys that a decoder keeps in its cache."""

from __future__ import annotations

from anyseq.design import Design
from anyseq.graph import keys_kept as kept_by


def keys_kept(design: Design) -> int | None:
    """How many keys a layer keeps, on average over the layers that attend and rounded up, while the
    tokens of the design are written one by one; None if some layer attends to later tokens, since
    then there is no cache.

    A key is kept from its own token to the last one that attends to it: all of them where attention
    is full, w + 1 for a window of the w tokens before each token.
    """
    cycle = design.layer_cycle
    depth = len(cycle) if design.depth is None else design.depth
    layers = [cycle[number % len(cycle)] for number in range(depth)]
    patterns = [layer.sees for layer in layers if layer.attends]
    many = {pattern: kept_by(pattern, design.size) for pattern in set(patterns)}
    counts = [count for pattern in patterns if (count := many[pattern]) is not None]
    if len(counts) < len(patterns):
        return None
    return -(-sum(counts) // len(counts)) if counts else 0
