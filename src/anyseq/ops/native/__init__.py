"""Attention in tiles by a kernel in C++, on a CPU, where it has been compiled."""

from anyseq.ops.native.heads import backward, forward, table_of
from anyseq.ops.native.library import loaded, missing, native_text

__all__ = ["backward", "forward", "loaded", "missing", "native_text", "table_of"]
