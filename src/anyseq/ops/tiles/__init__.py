"""Attention in tiles, by torch's operators, on any device."""

from anyseq.ops.tiles.batches import GRAIN
from anyseq.ops.tiles.heads import backward, forward

__all__ = ["GRAIN", "backward", "forward"]
