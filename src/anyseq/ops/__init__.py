"""The attention operator."""

from anyseq.ops.api import attend, attention, attention_plan, chosen, prepare
from anyseq.ops.call import Call, ScoreMod
from anyseq.ops.checks import check_key_mask, check_term, who
from anyseq.ops.choose import BACKENDS, AttentionPlan, shared_by_layers
from anyseq.ops.own_steps import any_learns, is_followed, step_refusal
from anyseq.ops.short_layer import HeadWeights, attention_layer

__all__ = [
    "BACKENDS",
    "AttentionPlan",
    "Call",
    "HeadWeights",
    "ScoreMod",
    "any_learns",
    "attend",
    "attention",
    "attention_layer",
    "attention_plan",
    "check_key_mask",
    "check_term",
    "chosen",
    "is_followed",
    "prepare",
    "shared_by_layers",
    "step_refusal",
    "who",
]
