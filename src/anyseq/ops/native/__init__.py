"""Attention in tiles by a kernel in C++, on a CPU, where it has been compiled."""

from anyseq.ops.native.heads import backward, forward
from anyseq.ops.native.library import loaded, missing, native_text
from anyseq.ops.native.table import GRAIN

__all__ = ["GRAIN", "backward", "forward", "loaded", "missing", "native_text"]
