"""The mixer half of a block, from the layer of a design."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from anyseq.design import Average, Bilinear, Convolution, Layer, LinearAttention, Recurrence
from anyseq.errors import InvalidArgument
from anyseq.nn.attention import Attention
from anyseq.nn.linear_attention import LinearAttentionMixer
from anyseq.nn.mixers import AverageMixer, BilinearProjection, Mixer, SeparableConv
from anyseq.nn.recurrence import GatedRecurrence
from anyseq.positions import Position

_MODULES: dict[type, type] = {
    str: Attention,
    Convolution: SeparableConv,
    Recurrence: GatedRecurrence,
    LinearAttention: LinearAttentionMixer,
    Average: AverageMixer,
    Bilinear: BilinearProjection,
}


def made_of(module: object, layer: Layer) -> bool:
    """Whether a module is of the class that serves such a layer."""
    made = _MODULES.get(type(layer.mixer))
    return made is not None and isinstance(module, made)


@dataclass(frozen=True)
class MixerMaker:
    """Makes the mixers of a Transformer, for sequences of up to `tokens`.

    heads, head_dim: of attention and linear attention.
    attention: further arguments of `Attention`.
    """

    dim: int
    heads: int
    head_dim: int | None
    tokens: int
    causal: bool
    attention: Mapping[str, Any]
    dtype: torch.dtype | None
    device: torch.device | str | None

    def __call__(self, layer: Layer, position: Position) -> Mixer:
        """The module of a layer; position: what is its own of the layer's position."""
        dim, dtype, device = self.dim, self.dtype, self.device
        pattern, causal = layer.pattern, self.causal
        match layer.mixer:
            case Convolution() as found:
                return SeparableConv(
                    dim, found.width, causal=causal or found.causal, dtype=dtype, device=device
                )
            case Recurrence():
                return GatedRecurrence(dim, dtype=dtype, device=device)
            case LinearAttention() as found:
                return LinearAttentionMixer(
                    dim,
                    self.heads,
                    self.head_dim,
                    pattern=pattern,
                    causal=causal,
                    normalised=found.normalised,
                    dtype=dtype,
                    device=device,
                )
            case Average():
                return AverageMixer(dim, pattern=pattern, causal=causal, dtype=dtype, device=device)
            case Bilinear():
                return BilinearProjection(
                    dim, self.tokens, pattern=pattern, causal=causal, dtype=dtype, device=device
                )
            case "attention":
                return self._attention(layer, position)
        names = ", ".join(cls.__name__ for cls in _MODULES if cls is not str)
        raise InvalidArgument(
            f"mixer={layer.mixer!r}: there is no trainable module for it; expected "
            f"attention, {names}"
        )

    def _attention(self, layer: Layer, position: Position) -> Attention:
        return Attention(
            self.dim,
            self.heads,
            self.head_dim,
            pattern=layer.pattern,
            causal=self.causal,
            prob_map=layer.probability,
            position=position,
            tokens=self.tokens,
            sinks=layer.sinks,
            **self.attention,
            dtype=self.dtype,
            device=self.device,
        )
