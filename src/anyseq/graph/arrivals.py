"""After how many layers some tokens reach all others, for designs of any length."""

from __future__ import annotations

import numpy as np

from anyseq.base import check_time
from anyseq.design import Design
from anyseq.graph.edges import Array, seen_by_any_head
from anyseq.graph.visible import visible


def arrivals(design: Design, tokens: Array) -> Array:
    """(design.tokens, len(tokens)) int32 [k, c]: the fewest layers after which token tokens[c]
    reaches token k, counted from the start of the cycle, residual included; -1 if it never does.
    Tokens are counted without BOS; routes may pass through it."""
    size, cycle = design.size, design.cycle
    known = {one: visible(seen_by_any_head(one), size) for one in dict.fromkeys(cycle)}
    layers = np.full((size, len(tokens)), -1, dtype=np.int32)
    layers[tokens + design.bos, np.arange(len(tokens))] = 0
    layer = still = 0
    while still < len(cycle) and (layers < 0).any():
        check_time()
        held = (layers >= 0).astype(np.float64)
        new = (known[cycle[layer % len(cycle)]].sums(held) > 0) & (layers < 0)
        layer += 1
        layers[new] = layer
        still = 0 if new.any() else still + 1
    return layers[design.bos :]
