"""Where the pairs of a pattern lie, as tiles."""

from anyseq.ops.layout.cover import cover
from anyseq.ops.layout.tiling import Grain, Layout, Pass, Sizes, Tile

__all__ = ["Grain", "Layout", "Pass", "Sizes", "Tile", "cover"]
