"""What the relative terms can see of an offset."""

from __future__ import annotations

import numpy as np
import torch

from anyseq.design import Design
from anyseq.errors import InvalidArgument
from anyseq.graph.edges import Array
from anyseq.positions import (
    URPE,
    ALiBi,
    NoPosition,
    Place,
    Position,
    Rotary,
    Shaw,
    ToeplitzBias,
    base_of,
)


def labels(position: Position, size: int) -> tuple[Array, Array]:
    """The bias label r and the gain label g of the offsets i-j = 1-size, ..., size-1, int64.

    Rotary turns queries and keys so that scores depend on the offset: r = i-j. Shaw's label is seen
    by the scores and by the values: r = g. A gain of URPE sees the offset itself: g = i-j.
    """
    offset = torch.arange(1 - size, size)
    gain = torch.zeros_like(offset)
    match position:
        case URPE():
            return labels(position.base, size)[0], offset.numpy()
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
                f"position={position!r}: it is not known what this position can see of an offset"
            )
    return bias.numpy(), gain.numpy()


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
