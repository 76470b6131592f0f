"""The attention operator."""

from anyseq.ops.api import attention, attention_plan, prepare
from anyseq.ops.call import ScoreMod
from anyseq.ops.choose import BACKENDS, AttentionPlan, shared_by_layers

__all__ = [
    "BACKENDS",
    "AttentionPlan",
    "ScoreMod",
    "attention",
    "attention_plan",
    "prepare",
    "shared_by_layers",
]
