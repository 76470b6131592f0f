"""Tiny models with windows, chunks, sinks and caps of their own, narrow enough to show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    Llama4ForCausalLM,
    Llama4TextConfig,
    MistralConfig,
    MistralForCausalLM,
    ModernBertConfig,
    ModernBertForMaskedLM,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from hf.tiny import COMMON, FAMILIES, GROUPED, SPECIALS

LAYERS: dict[str, Any] = {"layer_types": ["sliding_attention", "full_attention"]}


def mistral() -> PreTrainedModel:
    return MistralForCausalLM(MistralConfig(**GROUPED, sliding_window=4))


def qwen3() -> PreTrainedModel:
    windows: dict[str, Any] = {"use_sliding_window": True, "sliding_window": 4}
    return Qwen3ForCausalLM(Qwen3Config(**GROUPED, **windows, **LAYERS))


def gemma3() -> PreTrainedModel:
    windows: dict[str, Any] = {"sliding_window": 4, "query_pre_attn_scalar": 8}
    return Gemma3ForCausalLM(Gemma3TextConfig(**GROUPED, **windows, **LAYERS))


def llama4() -> PreTrainedModel:
    kinds = {"layer_types": ["chunked_attention", "full_attention"], "attention_chunk_size": 4}
    sizes: dict[str, Any] = {"num_local_experts": 2, "intermediate_size_mlp": 64, **kinds}
    return Llama4ForCausalLM(Llama4TextConfig(**GROUPED, **sizes, no_rope_layers=[1, 0]))


def modernbert() -> PreTrainedModel:
    special: dict[str, Any] = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    special |= {"cls_token_id": 1, "sep_token_id": 2}
    dropout: dict[str, Any] = {"embedding_dropout": 0.0, "mlp_dropout": 0.0, "local_attention": 6}
    sizes = COMMON | {"layer_types": ["sliding_attention", "full_attention"]}
    return ModernBertForMaskedLM(ModernBertConfig(**sizes, **special, **dropout))


PLAIN: dict[str, Callable[[], PreTrainedModel]] = {
    **FAMILIES,
    **SPECIALS,
    "mistral": mistral,
    "qwen3": qwen3,
    "gemma3": gemma3,
    "llama4": llama4,
    "modernbert": modernbert,
}
# torch's own attention, in float64, is the reference; these have no such path.
NO_SDPA = {"gpt_oss", "gemma2", "t5"}
DECODERS = [name for name in PLAIN if name not in ("bert", "roberta", "modernbert")]


def build(name: str, dtype: torch.dtype) -> Any:
    """The same weights at every call, in training mode."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = PLAIN[name]().train()
    if model._can_set_experts_implementation():
        model.set_experts_implementation("eager")
    for part in model.modules():
        if isinstance(part, PreTrainedModel):
            part.set_attn_implementation("eager")
            if dtype == torch.float64 and name not in NO_SDPA:
                part.set_attn_implementation("sdpa")
    return model.to(dtype)
