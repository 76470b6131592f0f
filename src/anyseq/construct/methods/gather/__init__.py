"""Method "gather": one grid, an adaptive one, or one wide layer."""

from anyseq.construct.methods.gather.adaptive import recipe
from anyseq.construct.methods.gather.gather import NAME

__all__ = ["NAME", "recipe"]
