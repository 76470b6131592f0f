"""Tiny transformers models, always with the same weights."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import torch
from torch import nn
from transformers import (
    CONFIG_MAPPING,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    PreTrainedConfig,
    PreTrainedModel,
)

_LAYERS = 4
_SIZES: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": _LAYERS,
    "num_attention_heads": 4, "vocab_size": 100, "max_position_embeddings": 256,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
_GROUPED = _SIZES | {"num_key_value_heads": 2, "head_dim": 8}
_SETTINGS: dict[str, dict[str, Any]] = {
    "bert": _SIZES,
    "modernbert": _SIZES | {"local_attention": 8, "global_attn_every_n_layers": 2,
                            "cls_token_id": 1, "sep_token_id": 2},
    "mistral": _GROUPED | {"sliding_window": 8},
    "gpt2": {"n_embd": 32, "n_layer": _LAYERS, "n_head": 4, "n_positions": 64, "vocab_size": 100,
             "bos_token_id": 1, "eos_token_id": 2},
    "t5": {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4,
           "vocab_size": 100},
    "llama4_text": _GROUPED | {"intermediate_size_mlp": 64, "num_local_experts": 2,
                               "attention_chunk_size": 8, "interleave_moe_layer_step": 100},
    "mixtral": _GROUPED | {"num_local_experts": 4, "sliding_window": None},
}  # fmt: skip
_HEADS = {"bert": AutoModelForMaskedLM, "modernbert": AutoModelForMaskedLM,
          "t5": AutoModelForSeq2SeqLM}  # fmt: skip

Edit = Callable[[torch.Tensor | None, torch.Tensor], torch.Tensor | None]
"""From the mask that a layer is handed, and what it works on, to the mask that it uses."""


def config_of(kind: str, **settings: Any) -> PreTrainedConfig:
    """The config of a tiny model."""
    return CONFIG_MAPPING[kind](**_SETTINGS.get(kind, _GROUPED) | settings)


def tiny(kind: str, attention: str = "sdpa", **settings: Any) -> PreTrainedModel:
    """A tiny model of a family."""
    head: Any = _HEADS.get(kind, AutoModelForCausalLM)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = head.from_config(config_of(kind, **settings), attn_implementation=attention)
    return model.eval()


def attentions(model: PreTrainedModel, *layers: int) -> list[nn.Module]:
    """The attention of some layers of a decoder, counted from 1."""
    stack: Any = model.base_model
    blocks = stack.h if hasattr(stack, "h") else stack.layers
    return [getattr(blocks[one - 1], "self_attn", None) or blocks[one - 1].attn for one in layers]


def with_mask(attention: nn.Module, edit: Edit) -> None:
    """Let one attention use another mask than the one that it is handed, except with a cache."""
    kind: Any = type(attention)
    name = "mask" if "mask" in signature(kind.forward).parameters else "attention_mask"

    class Edited(kind):
        def forward(self, hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if kwargs.get("past_key_values") is None:
                mask = kwargs.get(name)
                edited = edit(mask, hidden_states)
                kwargs[name] = _of_type(edited, mask)
            return super().forward(hidden_states, *args, **kwargs)

    Edited.__name__ = kind.__name__
    attention.__class__ = Edited


def _of_type(edited: torch.Tensor | None, mask: torch.Tensor | None) -> torch.Tensor | None:
    """Eager attention adds its mask, sdpa takes a bool one."""
    if edited is None or mask is None or edited.dtype == mask.dtype:
        return edited
    return torch.zeros_like(mask).masked_fill(~edited, torch.finfo(mask.dtype).min)
