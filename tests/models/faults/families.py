"""Tiny models of transformers' families, as their classes build them, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers

Make = Callable[[], tuple[Any, Any]]
"""A model and what is declared of it; None for its own config or design."""

SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 80,
    "max_position_embeddings": 128,
    "initializer_range": 0.3,  # far from uniform attention, so that differences show
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
GROUPED: dict[str, Any] = SIZES | {"num_key_value_heads": 2, "head_dim": 8}

BOTH: dict[str, Any] = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "vocab_size": 80,
    "max_position_embeddings": 64, "init_std": 0.3, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "decoder_start_token_id": 1, "forced_eos_token_id": 2,
}  # fmt: skip


def tiny(
    kind: str,
    sizes: dict[str, Any] = SIZES,
    *,
    attention: str | None = None,
    dtype: torch.dtype = torch.float32,
    **settings: Any,
) -> Any:
    """A model of one of transformers' classes, the same at every call."""
    cls = getattr(transformers, kind)
    config = cls.config_class(**sizes | settings)
    model = seeded(lambda: cls._from_config(config, attn_implementation=attention))
    return model.to(dtype).eval()


def seeded(make: Callable[[], Any]) -> Any:
    """The same weights at every call."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return make()


def alone(*args: Any, **settings: Any) -> Make:
    """A model that declares by its config."""
    return lambda: (tiny(*args, **settings), None)
