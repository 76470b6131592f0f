"""Method "fit"."""

from anyseq.construct.methods.fit.fit import NAME, recipe

__all__ = ["NAME", "recipe"]
