"""Attention in tiles: layouts of patterns, and the kernel that runs them."""

from anyseq.ops.tiles.keys import key_of
from anyseq.ops.tiles.run import covered_scores, run_tiles

__all__ = ["covered_scores", "key_of", "run_tiles"]
