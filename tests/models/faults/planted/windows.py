"""Windows and chunks that are not those of the config."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

import anyseq as aq
from models.faults.planted.families import attentions, config_of, tiny, with_mask
from models.faults.planted.fault import Model, Planted, around, causal, chunk, window

_TYPES = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]


def _fast(module: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any) -> Any:
    """Attention as engines write it: what it is handed as a mask is left to the mask function."""
    several = query.shape[2] > 1
    out = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, mask, scale=options.get("scaling"), enable_gqa=True,
        is_causal=mask is None and several,
    )  # fmt: skip
    return out.transpose(1, 2), None


def _maskless(module: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any) -> Any:
    """A backend for encoders that knows neither windows nor padding."""
    return _fast(module, query, key, value, torch.ones(1, 1, 1, 1, dtype=torch.bool), **options)


AttentionInterface.register("planted_fast", _fast)
AttentionInterface.register("planted_fast_registered", _fast)
AttentionMaskInterface.register("planted_fast_registered", sdpa_mask)
AttentionInterface.register("planted_maskless", _maskless)
AttentionMaskInterface.register("planted_maskless", sdpa_mask)


def _unregistered(faulty: bool) -> Model:
    return tiny("mistral", "planted_fast" if faulty else "planted_fast_registered"), None


def _backend(faulty: bool) -> Model:
    return tiny("modernbert", "planted_maskless" if faulty else "sdpa"), None


def _other_layers(faulty: bool) -> Model:
    types = [*reversed(_TYPES)] if faulty else _TYPES
    declared = config_of("gemma3_text", layer_types=_TYPES, sliding_window=8)
    return tiny("gemma3_text", layer_types=types, sliding_window=8), declared


def _alternating(faulty: bool) -> Model:
    kinds = ["full_attention", "sliding_attention"] * 2
    types = kinds if faulty else kinds[::-1]
    declared = config_of("gpt_oss", sliding_window=8, num_local_experts=4)
    model = tiny("gpt_oss", "eager", sliding_window=8, num_local_experts=4, layer_types=types)
    return model, declared


def _wide(faulty: bool) -> Model:
    model = tiny("olmo3", sliding_window=8 + faulty)
    return model, config_of("olmo3", sliding_window=8)


def _narrow(faulty: bool) -> Model:
    return tiny("mistral", sliding_window=8 - faulty), config_of("mistral")


def _chunks(faulty: bool) -> Model:
    types = ["chunked_attention"] * 3 + ["full_attention"]
    used = 256 if faulty else 8
    model = tiny("llama4_text", attention_chunk_size=used, layer_types=types)
    return model, config_of("llama4_text", layer_types=types)


def _forgetful(faulty: bool) -> Model:
    model = tiny("gemma3_text", layer_types=_TYPES, sliding_window=8)

    def last(mask: torch.Tensor | None, x: torch.Tensor) -> torch.Tensor:
        near = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril().triu(-7)
        if mask is None:
            return near
        return near & (mask if mask.dtype == torch.bool else mask == 0)  # eager adds its mask

    if faulty:
        with_mask(attentions(model, 3)[0], last)
    return model, None


def _patched(faulty: bool) -> Model:
    """A patch of forward that keeps hold of the old one."""
    model = tiny("mistral")
    for attention in attentions(model, 1, 2, 3, 4):

        def forward(*args: Any, old: Any = attention.forward, **kwargs: Any) -> Any:
            if faulty and kwargs.get("past_key_values") is None:
                kwargs["attention_mask"] = None
            return old(*args, **kwargs)

        attention.forward = forward
    return model, None


def _radius(faulty: bool) -> Model:
    pattern = aq.Causal() & aq.Window(5 if faulty else 4)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        design = aq.Design(tokens=30, patterns=pattern, position=aq.Rotary(), depth=2)
        model = aq.nn.Transformer(design, dim=16, depth=2, heads=2)
    return model, aq.Causal() & aq.Window(4)


def _half(faulty: bool) -> Model:
    """ModernBERT's local_attention counts both sides."""
    used = 16 if faulty else 8
    return tiny("modernbert", local_attention=used), config_of("modernbert")


FAULTS = [
    Planted(
        "the window never reaches the kernel", "mistral",
        "A custom attention function was registered, and no mask function under its name: "
        "transformers passes it no mask, and the function applies the causal mask alone.",
        _unregistered, "window", (1, 2, 3, 4), window(8), ("padding", "documents", "cache",
        "implementations"), "unslothai/unsloth#8253",
    ),
    Planted(
        "a patched forward drops the mask", "mistral",
        "The attention of each layer was patched for speed; the new forward passes no mask to the "
        "old one.",
        _patched, "window", (1, 2, 3, 4), window(8), ("padding", "documents", "cache"),
    ),
    Planted(
        "a backend ignores the mask of an encoder", "modernbert",
        "The attention function of a CPU backend gets the mask of each layer and does not use it.",
        _backend, "window", (2, 4), around(4), ("padding", "documents", "implementations"),
        "sgl-project/sglang#33603",
    ),
    Planted(
        "the window is taken for one side", "modernbert",
        "local_attention=8 counts the tokens of both sides; the port took it for each side.",
        _half, "window", (2, 4), around(4), (), "sgl-project/sglang#33603",
    ),
    Planted(
        "the window is on the wrong layers", "gemma3",
        "Layer 3 ought to have full attention; the port counts from the end, and layer 2 has it.",
        _other_layers, "lost", (3,), causal, ("window",),
    ),
    Planted(
        "full and sliding layers are swapped", "gpt-oss",
        "Layers 1 and 3 ought to have the window; here layers 2 and 4 have it.",
        _alternating, "window", (1, 3), window(8), ("lost",),
    ),
    Planted(
        "a window that is one token too wide", "olmo3",
        "The window of 8 tokens, one of which is the token itself, was taken as 8 earlier tokens.",
        _wide, "window", (1, 2, 3), window(8), (),
    ),
    Planted(
        "a window that is one token too narrow", "mistral",
        "The window of 8 tokens, the token itself among them, was cut to 7: < in place of <=.",
        _narrow, "lost", (1, 2, 3, 4), window(8), (),
    ),
    Planted(
        "chunks are ignored", "llama4",
        "The layers with chunks of 8 tokens get the mask of full attention.",
        _chunks, "window", (1, 2, 3), chunk(8), (),
    ),
    Planted(
        "a global layer has lost old tokens", "gemma3",
        "The layer with full attention gets the window of the others, except with a cache.",
        _forgetful, "lost", (3,), causal, ("cache",), "vllm-project/vllm#51756",
    ),
    Planted(
        "a radius that is one too large", "anyseq.nn.Transformer",
        "The model is built with Window(5) and declared with Window(4).",
        _radius, "window", (1, 2), window(5), (),
    ),
]  # fmt: skip
