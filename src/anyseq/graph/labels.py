"""What the relative terms depend on for a pair of tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from anyseq.design import Design
from anyseq.errors import InvalidArgument
from anyseq.graph.edges import Array
from anyseq.positions import (
    URPE,
    ALiBi,
    GridBias,
    NoPosition,
    Place,
    Position,
    Rotary,
    Shaw,
    ToeplitzBias,
    base_of,
    on_a_line,
)


@dataclass(frozen=True, eq=False)
class Labels:
    """places: (size,) int64: tokens on a line, so that labels are functions of p_i - p_j.
    bias, gain: (2m+1,) int64: the bias label r and the gain label g of p_i - p_j = -m, ..., m."""

    places: Array
    bias: Array
    gain: Array

    def at(self, row: Array, column: Array) -> Array:
        """Where the labels of pairs stand in `bias` and `gain`."""
        places: Array = self.places[row] - self.places[column] + len(self.bias) // 2
        return places


def by_offset(bias: Array, gain: Array) -> Labels:
    """Labels of the offsets i-j = 1-size, ..., size-1."""
    return Labels(np.arange((len(bias) + 1) // 2), bias, gain)


def labels(position: Position, size: int) -> Labels:
    """What the terms of a position depend on for pairs of `size` tokens.

    Rotary turns queries and keys so that scores depend on the offset: r = i-j. Shaw's label enters
    the scores and the values: r = g. GridBias depends on the offset of two cells, which determines
    i-j, too. A gain of URPE depends on the offset itself: g = i-j.
    """
    base = base_of(position)
    if isinstance(base, GridBias):
        offset = _offsets(base.shape).numpy()
        gains = offset if isinstance(position, URPE) else np.zeros_like(offset)
        return Labels(on_a_line(base.shape).numpy(), np.arange(len(offset)), gains)
    bias, gain = _labels(position, torch.arange(1 - size, size))
    return by_offset(bias.numpy(), gain.numpy())


def _offsets(shape: tuple[int, ...]) -> torch.Tensor:
    """(K,) int64: i - j for each offset of cells, in their order on the line."""
    offset = torch.zeros((), dtype=torch.int64)
    for length in shape:
        offset = offset[..., None] * length + torch.arange(1 - length, length)
    return offset.flatten()


def _labels(position: Position, offset: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """r and g of offsets i-j."""
    gain = torch.zeros_like(offset)
    match position:
        case URPE():
            return _labels(position.base, offset)[0], offset
        case ToeplitzBias():
            bias = position.label(offset)
        case Shaw():
            bias = gain = position.label(offset)
        case Rotary():
            bias = offset
        case _ if isinstance(position, NoPosition) or position.acts_in == {Place.INPUT}:
            bias = gain
        case _:
            raise InvalidArgument(
                f"position={position!r}: it is not known how this position depends on an offset"
            )
    return bias, gain


def geometric(position: Position) -> bool:
    """Whether the bias is a slope times the distance, ALiBi's, and not free for every label."""
    return isinstance(base_of(position), ALiBi)


def start(design: Design) -> Array:
    """(size,) int64: the colours before the first layer. Absolute positions differ from token to
    token; BOS differs from all."""
    place = np.arange(design.size)
    if Place.INPUT in design.input_position.acts_in:
        return place
    return (place >= design.bos).astype(np.int64)
