"""Padding that changes outputs."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

import anyseq as aq
from models.faults.planted.families import tiny, with_mask
from models.faults.planted.fault import Model, Planted
from models.faults.planted.packing import window_layers_alone
from models.faults.planted.plain import Encoder, seeded


def real_on(side: str, count: int = 7, tokens: int = 30) -> Any:
    """Whether j is real, where the audit pads a quarter on one side."""
    return lambda i, j: j < tokens - count if side == "right" else j >= count


def _bert(faulty: bool) -> Model:
    model: Any = tiny("bert")
    if faulty:
        with_mask(model.bert.encoder.layer[2].attention.self, lambda mask, x: None)
    return model, None


def _t5(faulty: bool) -> Model:
    model: Any = tiny("t5")
    if faulty:
        with_mask(model.encoder.block[1].layer[0].SelfAttention, lambda mask, x: None)
    return model, None


def _crossed(faulty: bool) -> Model:
    model: Any = tiny("t5")
    if faulty:
        cross = model.decoder.block[1].layer[1].EncDecAttention
        with_mask(cross, lambda mask, x: None)
    return model, None


def real_in_what_is_read(i: int, j: int) -> bool:
    """Whether token j of the 14 that the encoder reads is real."""
    return j < 10


def _learned_positions(faulty: bool) -> Model:
    model = tiny("gpt2")
    own: Any = type(model)

    class Counting(own):  # type: ignore[misc]
        def forward(self, input_ids: Any = None, attention_mask: Any = None,
                    position_ids: Any = None, **kwargs: Any) -> Any:  # fmt: skip
            return super().forward(input_ids, attention_mask=attention_mask, **kwargs)

    Counting.__name__ = own.__name__
    if faulty:
        model.__class__ = Counting
    return model, None


def _masked_with(lowest: float) -> Any:
    def attend(module: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any) -> Any:
        groups = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
        scores = query @ key.transpose(2, 3) * options["scaling"]
        if mask is not None:
            scores = scores.masked_fill(~mask, lowest)
        out = scores.softmax(-1) @ value
        return out.transpose(1, 2).contiguous(), None

    return attend


def _always_a_mask(*args: Any, **kwargs: Any) -> Any:
    kwargs["allow_is_causal_skip"] = False
    return sdpa_mask(*args, **kwargs)


for _name, _lowest in (("planted_infinite", float("-inf")), ("planted_finite", -1e30)):
    AttentionInterface.register(_name, _masked_with(_lowest))
    AttentionMaskInterface.register(_name, _always_a_mask)


def _nan_rows(faulty: bool) -> Model:
    return tiny("qwen2", "planted_infinite" if faulty else "planted_finite"), None


class Pooled(nn.Module):
    """Adds the mean of the sequence to each token."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x.mean(1, keepdim=True)


def _mean(faulty: bool) -> Model:
    model = seeded(Encoder)
    model.mix = Pooled() if faulty else model.mix
    return model, aq.Full()


FAULTS = [
    Planted(
        "window layers drop the caller's mask", "gemma3",
        "The layers with a window build their mask from the length alone.",
        window_layers_alone, "padding", (), real_on("left"), ("documents", "cache"),
        "NVIDIA/Megatron-LM#7039",
    ),
    Planted(
        "one layer drops the padding mask", "bert",
        "The third layer gets None in place of the mask.",
        _bert, "padding", (), real_on("right"), ("documents",), "huggingface/transformers#47651",
    ),
    Planted(
        "the encoder's last layer drops the padding mask", "t5",
        "The second layer of the encoder gets None in place of the mask.",
        _t5, "padding", (), real_on("right"), (), "huggingface/transformers#46773",
    ),
    Planted(
        "cross-attention drops the encoder's padding mask", "t5",
        "The second layer of the decoder attends to all that the encoder gives.",
        _crossed, "padding", (), real_in_what_is_read,
    ),
    Planted(
        "learned positions count padding", "gpt2",
        "position_ids are not passed on: with padding on the left the text begins at position 7.",
        _learned_positions, "padding", (), real_on("left"), ("documents",),
        "huggingface/transformers#46773",
    ),
    Planted(
        "rows without a key are NaN", "qwen2",
        "Scores are masked with -inf: a padded place on the left has nothing to attend to, gives "
        "NaN, and its values spread from the second layer on.",
        _nan_rows, "padding", (), real_on("left"), (), "unslothai/unsloth#9848",
    ),
    Planted(
        "padding is in a mean", "plain encoder",
        "The mean of the sequence, padding among it, is added to each token.",
        _mean, "padding", (), real_on("right"), (), "huggingface/transformers#47651",
    ),
]  # fmt: skip
