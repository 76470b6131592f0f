"""The attention operator."""

from anyseq.ops.api import attend, attend_layer, attention, attention_plan, prepare
from anyseq.ops.call import Call, ScoreMod
from anyseq.ops.checks import check_key_mask, check_term, who
from anyseq.ops.choose import BACKENDS, AttentionPlan, shared_by_layers
from anyseq.ops.short_layer import HeadWeights

__all__ = [
    "BACKENDS",
    "AttentionPlan",
    "Call",
    "HeadWeights",
    "ScoreMod",
    "attend",
    "attend_layer",
    "attention",
    "attention_plan",
    "check_key_mask",
    "check_term",
    "prepare",
    "shared_by_layers",
    "who",
]
