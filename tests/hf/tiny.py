"""Tiny Hugging Face models: two layers, 32 features, 4 heads, 50 tokens, no dropout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    RobertaConfig,
    RobertaForMaskedLM,
    T5Config,
    T5ForConditionalGeneration,
)

from versions import attends_by_t5

COMMON: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 50,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,  # far from uniform attention, so that differences show
}
SPECIAL: dict[str, Any] = {"bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0}
ENCODER = COMMON | {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
GROUPED = COMMON | SPECIAL | {"num_key_value_heads": 2, "head_dim": 8}


def bert() -> PreTrainedModel:
    return BertForMaskedLM(BertConfig(**ENCODER))


def roberta() -> PreTrainedModel:
    return RobertaForMaskedLM(RobertaConfig(**ENCODER))


def gpt2() -> PreTrainedModel:
    sizes: dict[str, Any] = {
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": 64,
        "vocab_size": 50,
    }
    dropout: dict[str, Any] = {"attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0}
    return GPT2LMHeadModel(GPT2Config(**sizes, **dropout, **SPECIAL, initializer_range=0.3))


def llama() -> PreTrainedModel:
    return LlamaForCausalLM(LlamaConfig(**GROUPED))


def t5() -> PreTrainedModel:
    sizes: dict[str, Any] = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    special = SPECIAL | {"decoder_start_token_id": 0}
    config = T5Config(**sizes, **special, vocab_size=50, dropout_rate=0.0)
    return T5ForConditionalGeneration(config)


def gemma2() -> PreTrainedModel:
    return Gemma2ForCausalLM(
        Gemma2Config(
            **GROUPED, sliding_window=4, query_pre_attn_scalar=8, attn_logit_softcapping=2.0
        )
    )


def gpt_oss() -> PreTrainedModel:
    return GptOssForCausalLM(GptOssConfig(**GROUPED, sliding_window=4, num_local_experts=4))


Make = Callable[[], PreTrainedModel]
FAMILIES: dict[str, Make] = {
    "bert": bert,
    "roberta": roberta,
    "gpt2": gpt2,
    "llama": llama,
    "t5": t5,
}
SPECIALS: dict[str, Make] = {"gemma2": gemma2, "gpt_oss": gpt_oss}


def attending(*names: str) -> list[Any]:
    """Families as parameters of a test of `use`, T5 with the version of transformers it needs."""
    return [pytest.param(name, marks=attends_by_t5) if name == "t5" else name for name in names]


# Eager attention takes its softmax in float32 here, where float64's smallest number is -infinity.
SINGLE = {"llama", "gemma2", "gpt_oss"}


def make(name: str) -> Any:
    """The same weights at every call, eager attention, in training mode; Any, because
    what its parts are called is the family's own business."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = (FAMILIES | SPECIALS)[name]().train()
    attend_by(model, "eager")
    if name == "gpt_oss":
        # Attention is what is tested; before torch 2.9 the CPU has no operator for all experts at
        # once, and transformers before 5.13 asks for it all the same.
        model.set_experts_implementation("eager")
    return model if name in SINGLE else model.double()


def attend_by(model: PreTrainedModel, implementation: str) -> None:
    """Of every part: transformers 5.15 does not tell T5's two stacks what the whole is told."""
    for part in model.modules():
        if isinstance(part, PreTrainedModel):
            part.set_attn_implementation(implementation)


def batch(model: PreTrainedModel, tokens: int = 12) -> dict[str, Any]:
    """Two sequences, the second shorter, padded on the left; labels for tokens that come after
    a real one, since what a padded token gives is nobody's business."""
    ids = torch.randint(3, 50, (2, tokens), generator=torch.Generator().manual_seed(2))
    mask = torch.ones_like(ids)
    mask[1, : tokens // 3] = 0
    labels = ids.masked_fill(mask.roll(1, 1) * mask == 0, -100)
    inputs = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    if model.config.is_encoder_decoder:
        inputs["labels"] = ids[:, 3:].contiguous()
    return inputs
