"""The attention operator."""

from anyseq.ops.api import attend, attention, attention_plan, prepare
from anyseq.ops.call import Call, ScoreMod
from anyseq.ops.checks import check_documents, check_key_mask, check_term, who
from anyseq.ops.choose import BACKENDS, AttentionPlan
from anyseq.ops.native import native_text

__all__ = [
    "BACKENDS",
    "AttentionPlan",
    "Call",
    "ScoreMod",
    "attend",
    "attention",
    "attention_plan",
    "check_documents",
    "check_key_mask",
    "check_term",
    "native_text",
    "prepare",
    "who",
]
