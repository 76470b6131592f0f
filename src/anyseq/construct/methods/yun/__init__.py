"""Method "yun"."""

from anyseq.construct.methods.yun.yun import NAME, recipe

__all__ = ["NAME", "recipe"]
