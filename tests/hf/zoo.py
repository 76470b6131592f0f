"""Tiny models of every family whose config can be read; windows are narrow enough to show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import (
    BertConfig,
    BertModel,
    BigBirdConfig,
    BigBirdModel,
    BloomConfig,
    BloomForCausalLM,
    ElectraConfig,
    ElectraModel,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    Gemma3TextModel,
    LlamaConfig,
    LlamaModel,
    LongformerConfig,
    LongformerModel,
    MambaConfig,
    MambaModel,
    MistralConfig,
    MistralForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    MptConfig,
    MptForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    RoFormerConfig,
    RoFormerModel,
)

from hf.tiny import COMMON, ENCODER, FAMILIES, GROUPED, SPECIAL, SPECIALS

SLIDING: dict[str, Any] = GROUPED | {"sliding_window": 3}
GEMMA3: dict[str, Any] = SLIDING | {"query_pre_attn_scalar": 8}
LOCAL = ["sliding_attention"] * 2


def deberta(**settings: Any) -> PreTrainedModel:
    from transformers import DebertaV2Config, DebertaV2Model

    return DebertaV2Model(DebertaV2Config(**COMMON, **settings))


def qwen2() -> PreTrainedModel:
    windows: dict[str, Any] = {"use_sliding_window": True, "sliding_window": 3}
    config = Qwen2Config(**COMMON, **SPECIAL, **windows, num_key_value_heads=2, max_window_layers=1)
    return Qwen2ForCausalLM(config)


def bloom() -> PreTrainedModel:
    return BloomForCausalLM(BloomConfig(hidden_size=32, n_layer=2, n_head=4, vocab_size=50))


def mpt() -> PreTrainedModel:
    return MptForCausalLM(MptConfig(d_model=32, n_layers=2, n_heads=4, vocab_size=50))


def big_bird(**settings: Any) -> PreTrainedModel:
    sizes = COMMON | {"block_size": 2, "num_random_blocks": 1} | settings
    return BigBirdModel(BigBirdConfig(**sizes))


def mamba() -> PreTrainedModel:
    sizes: dict[str, Any] = {"num_hidden_layers": 2, "vocab_size": 50, "state_size": 4}
    return MambaModel(MambaConfig(hidden_size=32, **sizes))


ZOO: dict[str, Callable[[], PreTrainedModel]] = {
    **FAMILIES,
    **SPECIALS,
    "electra": lambda: ElectraModel(ElectraConfig(**ENCODER)),
    "mistral": lambda: MistralForCausalLM(MistralConfig(**SLIDING)),
    "mistral-1": lambda: MistralForCausalLM(MistralConfig(**SLIDING | {"sliding_window": 1})),
    "mixtral": lambda: MixtralForCausalLM(MixtralConfig(**GROUPED, num_local_experts=4)),
    "qwen2": qwen2,
    "gemma3": lambda: Gemma3ForCausalLM(Gemma3TextConfig(**GEMMA3, layer_types=LOCAL)),
    "gemma3-both-ways": lambda: Gemma3TextModel(
        Gemma3TextConfig(**GEMMA3, layer_types=LOCAL, use_bidirectional_attention=True)
    ),
    "deberta": lambda: deberta(
        relative_attention=True, position_biased_input=False, pos_att_type="c2p|p2c"
    ),
    "deberta-absolute": deberta,
    "deberta-no-terms": lambda: deberta(relative_attention=True, position_biased_input=False),
    "deberta-nowhere": lambda: deberta(position_biased_input=False, pos_att_type="c2p|p2c"),
    "bert-no-layers": lambda: BertModel(BertConfig(**ENCODER | {"num_hidden_layers": 0})),
    "llama-no-layers": lambda: LlamaModel(LlamaConfig(**GROUPED | {"num_hidden_layers": 0})),
    "roformer": lambda: RoFormerModel(RoFormerConfig(**ENCODER)),
    "bloom": bloom,
    "mpt": mpt,
    "longformer": lambda: LongformerModel(LongformerConfig(**ENCODER, attention_window=4)),
    "big_bird": big_bird,
    "big_bird-one-layer": lambda: big_bird(num_hidden_layers=1),
    "mamba": mamba,
}

NO_DESIGN = {"deberta", "mamba"}
LONG = {"big_bird", "big_bird-one-layer"}  # below 15 tokens their attention is full


def build(name: str) -> tuple[Any, int]:
    """The same weights at every call, and how many tokens show what the model hides."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return ZOO[name](), 19 if name in LONG else 9
