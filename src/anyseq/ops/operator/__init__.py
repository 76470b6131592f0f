"""The tiles as operators of torch."""

from anyseq.ops.operator.keys import combined, keep, key_of
from anyseq.ops.operator.run import run_tiles

__all__ = ["combined", "keep", "key_of", "run_tiles"]
