"""The attention operator."""

from anyseq.ops.api import attend, attention, attention_plan, prepare
from anyseq.ops.call import Call, ScoreMod, Term
from anyseq.ops.checks import (
    check_documents,
    check_key_mask,
    check_term,
    checked,
    documents_of,
    who,
)
from anyseq.ops.choose import BACKENDS, AttentionPlan
from anyseq.ops.native import native_text
from anyseq.ops.reference import weights_and_lse
from anyseq.ops.torch_like import scaled_dot_product_attention

__all__ = [
    "BACKENDS",
    "AttentionPlan",
    "Call",
    "ScoreMod",
    "Term",
    "attend",
    "attention",
    "attention_plan",
    "check_documents",
    "check_key_mask",
    "check_term",
    "checked",
    "documents_of",
    "native_text",
    "prepare",
    "scaled_dot_product_attention",
    "weights_and_lse",
    "who",
]
