"""Method "partition"."""

from anyseq.construct.methods.partition.partition import NAME, recipe

__all__ = ["NAME", "recipe"]
