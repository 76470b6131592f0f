"""Method "sum"."""

from anyseq.construct.methods.sum.sum import NAME, recipe

__all__ = ["NAME", "recipe"]
