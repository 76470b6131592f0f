"""Packed documents that attend to each other."""

from __future__ import annotations

from typing import Any

import torch

import anyseq as aq
from models.faults.planted.families import attentions, tiny, with_mask
from models.faults.planted.fault import Model, Planted
from models.faults.planted.plain import Attention, Packed, seeded


def same_document(i: int, j: int) -> bool:
    """Documents of 14 and 16 tokens, as the audit packs 30."""
    return j <= i and (i < 14) == (j < 14)


def _model_dropping(kind: str, *names: str, faulty: bool) -> Model:
    """A model whose wrapper does not hand on some of its arguments."""
    model = tiny(kind)
    own: Any = type(model)

    class Wrapped(own):  # type: ignore[misc]
        def forward(self, input_ids: Any = None, attention_mask: Any = None,
                    position_ids: Any = None, **kwargs: Any) -> Any:  # fmt: skip
            given = {"attention_mask": attention_mask, "position_ids": position_ids}
            if "4-D" in names and attention_mask is not None and attention_mask.ndim == 4:
                given["attention_mask"] = None
            if "position_ids" in names:
                given["position_ids"] = None
            return super().forward(input_ids, **given, **kwargs)

    Wrapped.__name__ = own.__name__
    if faulty:
        model.__class__ = Wrapped
    return model, None


def _positions(faulty: bool) -> Model:
    return _model_dropping("llama", "position_ids", faulty=faulty)


def _four_dimensions(faulty: bool) -> Model:
    return _model_dropping("qwen2", "4-D", "position_ids", faulty=faulty)


def window_layers_alone(faulty: bool) -> Model:
    """Layers with a window that look at the length alone."""
    types = ["sliding_attention"] * 3 + ["full_attention"]
    model = tiny("gemma3_text", layer_types=types, sliding_window=8)

    def window_only(mask: torch.Tensor | None, x: torch.Tensor) -> torch.Tensor:
        tokens = x.shape[1]
        near = torch.ones(tokens, tokens, dtype=torch.bool).tril().triu(-7)[None, None]
        return near if mask is None else near.expand(len(x), 1, -1, -1)

    for attention in attentions(model, 1, 2, 3) if faulty else ():
        with_mask(attention, window_only)
    return model, None


class Deaf(Attention):
    """Builds the causal mask itself, and nothing more."""

    def mix(self, q: Any, k: Any, v: Any, allowed: torch.Tensor) -> torch.Tensor:
        tokens = q.shape[2]
        return super().mix(q, k, v, torch.ones(tokens, tokens, dtype=torch.bool).tril())


def _documents(faulty: bool) -> Model:
    model = seeded(Packed)
    model.blocks[1].attend = seeded(Deaf if faulty else Attention)
    return model, aq.Causal()


FAULTS = [
    Planted(
        "position_ids that restart are dropped", "llama",
        "The trainer's wrapper does not pass on position_ids, which separate packed documents.",
        _positions, "documents", (), same_document, (), "axolotl-ai-cloud/axolotl#3796",
    ),
    Planted(
        "a mask of four dimensions is dropped", "qwen2",
        "The wrapper takes masks of two dimensions only, and counts positions itself.",
        _four_dimensions, "documents", (), same_document, (), "huggingface/transformers#46634",
    ),
    Planted(
        "window layers make their own mask", "gemma3",
        "The layers with a window rebuild it from the length alone: documents and padding are lost "
        "in them.",
        window_layers_alone, "documents", (), same_document, ("padding", "cache"),
        "NVIDIA/Megatron-LM#7039",
    ),
    Planted(
        "document ids are ignored in one layer", "plain decoder",
        "The second layer builds its causal mask itself and ignores document_ids.",
        _documents, "documents", (), same_document, (), "huggingface/transformers#46634",
    ),
]  # fmt: skip
