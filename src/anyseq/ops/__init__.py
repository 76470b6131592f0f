"""The attention operator."""

from anyseq.ops.api import attention, attention_plan, prepare
from anyseq.ops.call import ScoreMod
from anyseq.ops.choose import AttentionPlan

__all__ = ["AttentionPlan", "ScoreMod", "attention", "attention_plan", "prepare"]
