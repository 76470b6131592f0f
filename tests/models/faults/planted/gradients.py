"""Gradients that differ from the forward pass, and implementations that disagree."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

import anyseq as aq
from models.faults.planted.families import attentions, tiny, with_mask
from models.faults.planted.fault import Model, Planted
from models.faults.planted.plain import Attention, Gpt, seeded


class _Unmasked(torch.autograd.Function):
    """Masked softmax attention whose backward pass recomputes the weights without the mask."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, allowed: Any) -> Any:
        ctx.save_for_backward(q, k, v)
        scores = (q @ k.transpose(2, 3)).masked_fill(~allowed, torch.finfo(q.dtype).min)
        return scores.softmax(-1) @ v

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        with torch.enable_grad():
            q, k, v = (one.detach().requires_grad_() for one in ctx.saved_tensors)
            out = (q @ k.transpose(2, 3)).softmax(-1) @ v
            return *torch.autograd.grad(out, (q, k, v), gradients[0]), None


class Custom(Attention):
    """Attention by a kernel with a backward pass of its own."""

    def mix(self, q: Any, k: Any, v: Any, allowed: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = _Unmasked.apply(q, k, v, allowed)
        return out


def _truncated(module: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any) -> Any:
    """Keys and values before the last eight are a memory, which is not trained through."""
    old = max(0, key.shape[2] - 8)
    key, value = (torch.cat([one[:, :, :old].detach(), one[:, :, old:]], 2) for one in (key, value))
    out = nn.functional.scaled_dot_product_attention(
        query, key, value, mask, scale=options["scaling"], enable_gqa=True,
        is_causal=mask is None and query.shape[2] > 1,
    )  # fmt: skip
    return out.transpose(1, 2), None


AttentionInterface.register("planted_truncated", _truncated)
AttentionMaskInterface.register("planted_truncated", sdpa_mask)


def _backward(faulty: bool) -> Model:
    model = seeded(Gpt)
    model.blocks[1].attend = seeded(Custom if faulty else Attention)
    return model, aq.Causal()


def _memory(faulty: bool) -> Model:
    return tiny("llama", "planted_truncated" if faulty else "sdpa"), None


def _sdpa_without_window(faulty: bool) -> Model:
    model = tiny("gemma3_text", "eager", sliding_window=8)

    def without(mask: torch.Tensor | None, x: torch.Tensor) -> torch.Tensor | None:
        return None if mask is None or mask.dtype == torch.bool else mask

    for attention in attentions(model, 1, 2, 3, 4) if faulty else ():
        with_mask(attention, without)
    return model, None


def _eager_without_scaling(faulty: bool) -> Model:
    model: Any = tiny("qwen2")
    for attention in attentions(model, 2) if faulty else ():
        kind: Any = type(attention)

        class Scaled(kind):  # type: ignore[misc]
            def forward(self, *args: Any, **kwargs: Any) -> Any:
                eager = self.config._attn_implementation == "eager"
                self.scaling = 0.0 if eager else self.head_dim**-0.5
                return super().forward(*args, **kwargs)

        attention.__class__ = Scaled
    return model, None


FAULTS = [
    Planted(
        "a backward pass without the mask", "plain decoder",
        "A kernel of its own masks the future in the forward pass and recomputes the weights "
        "without the mask in the backward pass.",
        _backward, "gradient", (2,),
    ),
    Planted(
        "old keys are detached", "llama",
        "Keys and values before the last eight are detached: the forward pass attends to them, "
        "training does not.",
        _memory, "gradient", (1, 2, 3, 4),
    ),
    Planted(
        "sdpa has no window, eager has", "gemma3",
        "The mask of sdpa is dropped; the model is loaded with eager attention, which is right.",
        _sdpa_without_window, "implementations", (), thread="unslothai/unsloth#8253",
    ),
    Planted(
        "eager attention with another scale", "qwen2",
        "With eager attention the scores of the second layer are multiplied by 0.",
        _eager_without_scaling, "implementations", (),
    ),
]  # fmt: skip
