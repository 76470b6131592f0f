"""What layers share inside attention: one table of gains, one of biases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn

from anyseq.errors import InvalidArgument
from anyseq.nn.attention_position import attention_position, inside_attention
from anyseq.positions import (
    URPE,
    GridBias,
    GridToeplitz,
    NoPosition,
    Position,
    RelativeBias,
    T5Bias,
    Toeplitz,
)


class SharedBias(nn.Module):
    """B of several layers: what one learned table, of RelativeBias, T5Bias or GridBias, adds to
    scores."""

    def __init__(
        self,
        position: Position,
        heads: int,
        tokens: int,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.position = attention_position(
            position, heads=heads, head_dim=1, tokens=tokens, dtype=dtype, device=device
        )

    def forward(self, x: torch.Tensor, first: int) -> Toeplitz | GridToeplitz:
        """B for the queries of x (batch, n, dim) and all keys up to them."""
        table = self.position.bias(x[:, None], 1.0, first + x.shape[1], first)
        assert isinstance(table, Toeplitz | GridToeplitz)
        return table


@dataclass(frozen=True)
class Inside:
    """What the position of one layer does inside attention.

    own: the part of the layer itself.
    gain: whether it takes the shared table of gains.
    bias: what the shared table of biases is of; None if the layer takes none.
    """

    own: Position
    gain: bool
    bias: Position | None


def insides(positions: Sequence[Position], shared_bias: bool) -> list[Inside]:
    """One for each layer; the biases they share, if they do, are of one kind."""
    found = []
    for position in positions:
        own, gain = inside_attention(position)
        own, bias = _without_learned_bias(own) if shared_bias else (own, None)
        found.append(Inside(own, gain, bias))
    kinds = list(dict.fromkeys(inside.bias for inside in found if inside.bias is not None))
    if shared_bias and len(kinds) != 1:
        given = ", ".join(map(repr, kinds or dict.fromkeys(positions)))
        wrong = "are biases of several kinds" if kinds else "learns no biases of offsets"
        raise InvalidArgument(
            f"shared_bias=True, but {given} {wrong}; expected layers with one of RelativeBias(), "
            "T5Bias() and GridBias(shape), or with URPE around it"
        )
    return found


def _without_learned_bias(position: Position) -> tuple[Position, Position | None]:
    """A position without the biases of offsets that it learns, and these biases."""
    match position:
        case URPE():
            rest, bias = _without_learned_bias(position.base)
            return replace(position, base=rest), bias
        case RelativeBias() | T5Bias() | GridBias():
            return NoPosition(), position
    return position, None
