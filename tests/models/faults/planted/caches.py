"""Decoding with a cache that gives other outputs."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache
from transformers.masking_utils import sdpa_mask

from models.faults.planted.families import tiny
from models.faults.planted.fault import Model, Planted


def _aligned(module: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any) -> Any:
    """is_causal=True aligns queries with the first keys: right only if there are as many."""
    out = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, mask, scale=options["scaling"], enable_gqa=True, is_causal=mask is None
    )
    return out.transpose(1, 2), None


AttentionInterface.register("planted_aligned", _aligned)
AttentionMaskInterface.register("planted_aligned", sdpa_mask)


def _key_0(faulty: bool) -> Model:
    return tiny("llama", "planted_aligned" if faulty else "sdpa"), None


def _wrapped(kind: str, change: Any, faulty: bool, **settings: Any) -> Model:
    """A model whose generation step changes its arguments."""
    model = tiny(kind, **settings)
    own: Any = type(model)

    class Step(own):  # type: ignore[misc]
        def forward(self, input_ids: Any = None, attention_mask: Any = None,
                    position_ids: Any = None, past_key_values: Any = None,
                    use_cache: Any = None, **kwargs: Any) -> Any:  # fmt: skip
            given = {"attention_mask": attention_mask, "position_ids": position_ids,
                     "past_key_values": past_key_values, "use_cache": use_cache}  # fmt: skip
            if use_cache:
                change(self, input_ids, given)
            return super().forward(input_ids, **given | kwargs)

    Step.__name__ = own.__name__
    if faulty:
        model.__class__ = Step
    return model, None


def _seen(given: dict[str, Any]) -> int:
    past = given["past_key_values"]
    return 0 if past is None else int(past.get_seq_length())


def _restarting(self: Any, ids: torch.Tensor, given: dict[str, Any]) -> None:
    given["position_ids"] = torch.arange(ids.shape[1])[None]


def _one_late(self: Any, ids: torch.Tensor, given: dict[str, Any]) -> None:
    past = _seen(given)
    given["position_ids"] = torch.arange(ids.shape[1])[None] + past + (past > 0)


def _short_memory(self: Any, ids: torch.Tensor, given: dict[str, Any]) -> None:
    if given["past_key_values"] is None:
        config = type(self.config)(**self.config.to_dict() | {"sliding_window": 6})
        given["past_key_values"] = DynamicCache(config=config)


def _unmasked(self: Any, ids: torch.Tensor, given: dict[str, Any]) -> None:
    if _seen(given) and given["attention_mask"] is not None:
        given["attention_mask"] = torch.ones_like(given["attention_mask"])


def _positions_restart(faulty: bool) -> Model:
    return _wrapped("gpt2", _restarting, faulty)


def _positions_late(faulty: bool) -> Model:
    return _wrapped("smollm3", _one_late, faulty)


def _evicted(faulty: bool) -> Model:
    return _wrapped("mistral", _short_memory, faulty)


def _padding_forgotten(faulty: bool) -> Model:
    return _wrapped("llama", _unmasked, faulty)


FAULTS = [
    Planted(
        "decoding attends only to key 0", "llama",
        "is_causal=True for one query aligns it with the first key; it is right for whole "
        "sequences, where there are as many queries as keys.",
        _key_0, "cache", (), thread="NVIDIA-NeMo/Megatron-Bridge#5259",
    ),
    Planted(
        "positions restart at every step", "gpt2",
        "A step with a cache counts its positions from 0.",
        _positions_restart, "cache", (),
    ),
    Planted(
        "positions are one too large with a cache", "smollm3",
        "After the first step positions are those of the next token.",
        _positions_late, "cache", (),
    ),
    Planted(
        "the cache evicts too early", "mistral",
        "The cache keeps a window of 6 tokens, the model has one of 8.",
        _evicted, "cache", (),
    ),
    Planted(
        "decoding forgets the padding mask", "llama",
        "After the first step with a cache the mask is all ones.",
        _padding_forgotten, "cache", (),
    ),
]  # fmt: skip
