"""The URPE gain as a part of a Hugging Face model."""

from __future__ import annotations

import torch
from transformers import PreTrainedModel

from anyseq.base import at_least_one
from anyseq.errors import InvalidArgument
from anyseq.positions import Toeplitz


class Gain(torch.nn.Module):
    """C (heads, 2n-1): weight a_ij of head h is multiplied by C[h, i - j + n - 1]."""

    def __init__(self, coefficients: torch.Tensor) -> None:
        super().__init__()
        self.coefficients = torch.nn.Parameter(coefficients)

    def forward(self, like: torch.Tensor) -> torch.Tensor:
        """The table in the dtype and on the device of the queries. It is a call, so that what wraps
        modules (adapters of peft, sharding) can return another."""
        return self.coefficients.to(like)


def make_gain(model: PreTrainedModel, gain: bool | int | torch.Tensor | Toeplitz) -> Gain:
    """One learnable table for all layers: all ones, or a copy of the one given."""
    config = model.config.get_text_config()
    heads = config.num_attention_heads
    if isinstance(gain, Toeplitz):
        gain = gain.coefficients
    if isinstance(gain, torch.Tensor):
        coefficients = Toeplitz(gain).coefficients.detach()
        if len(coefficients) not in (1, heads):
            raise InvalidArgument(
                f"gain of {len(coefficients)} heads: {type(model).__name__} has {heads}; "
                f"expected (1 or {heads}, 2n-1)"
            )
        return Gain(coefficients.to(model.device, model.dtype, copy=True))
    longest = getattr(config, "max_position_embeddings", None) if gain is True else gain
    if longest is None:
        raise InvalidArgument(
            f"gain=True: the config of {type(model).__name__} has no max_position_embeddings; "
            "give the greatest number of tokens, gain=n"
        )
    offsets = 2 * at_least_one("gain", longest) - 1
    return Gain(torch.ones(heads, offsets, device=model.device, dtype=model.dtype))
