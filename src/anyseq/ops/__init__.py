"""The attention operator."""

from anyseq.ops.api import attention
from anyseq.ops.call import ScoreMod

__all__ = ["ScoreMod", "attention"]
