"""Tiles of some rows by all keys: for masks that leave little out, and for relative terms."""

from __future__ import annotations

from functools import lru_cache

import torch

from anyseq.ops.layout.bands import Sizes
from anyseq.ops.layout.patches import patched
from anyseq.ops.layout.tiling import Layout, Pass, Run
from anyseq.patterns import Causal, Full

_SCORES = 1 << 19  # of a tile: measured, as is the height
_HEIGHT = 256


@lru_cache(maxsize=16)
def dense(sizes: Sizes, causal: bool, backward: bool) -> Layout:
    """All pairs, or those with j <= i. backward: the last row first, which makes a tile of a
    Toeplitz matrix a view of its table."""
    rows = torch.arange(sizes.queries)
    height = max(1, min(_HEIGHT, _SCORES // max(1, sizes.keys)))
    tiles = []
    for row in range(0, sizes.queries, height):
        end = min(row + height, sizes.queries)
        last = sizes.q_offset + (sizes.queries - 1 - row if backward else end - 1)
        width = min(sizes.keys, last + 1) if causal else sizes.keys
        if width > 0:
            tiles.append(Run(row, 0, end - row, width))
    part = Pass(
        tuple(tiles),
        rows.flip(0) if backward else rows,
        torch.arange(sizes.keys),
        picks_rows=backward,
        picks_columns=False,
        backward=backward,
    )
    return Layout(
        (patched(part, Causal() if causal else Full(), sizes),), sizes.queries, sizes.keys
    )
