"""Where the pairs of a pattern lie, as tiles."""

from anyseq.ops.layout.bands import Sizes
from anyseq.ops.layout.cover import cover
from anyseq.ops.layout.dense import dense
from anyseq.ops.layout.tiling import FORBIDDEN, Layout, Pass, Run

__all__ = ["FORBIDDEN", "Layout", "Pass", "Run", "Sizes", "cover", "dense"]
