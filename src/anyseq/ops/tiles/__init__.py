"""Attention in tiles: layouts of patterns, and the kernel that runs them."""

from anyseq.ops.tiles.keys import keep
from anyseq.ops.tiles.run import covered_scores, run_tiles

__all__ = ["covered_scores", "keep", "run_tiles"]
