"""Biases that depend on the offset i - j only, added to the scores: B is Toeplitz."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch

from anyseq.base import at_least_one
from anyseq.errors import InvalidArgument
from anyseq.positions.position import Place, Position


@dataclass(frozen=True)
class ToeplitzBias(Position, ABC):
    """The base of these encodings: B_ij of a head is a function of `label(i - j)`."""

    @property
    def acts_in(self) -> frozenset[Place]:
        return frozenset({Place.BIAS})

    @abstractmethod
    def label(self, offset: torch.Tensor) -> torch.Tensor:
        """What the bias depends on: offsets i - j of equal label have equal bias."""


@dataclass(frozen=True)
class ALiBi(ToeplitzBias):
    """B_ij = -slope_h |i - j|, with a fixed slope per head."""

    def label(self, offset: torch.Tensor) -> torch.Tensor:
        return offset.abs()

    def slopes(self, heads: int) -> tuple[float, ...]:
        """2^(-8(h+1)/heads) for a power of two; otherwise those of the power of two below, then
        every other one of the power of two above."""
        below = 2 ** (at_least_one("heads", heads).bit_length() - 1)
        first = [2.0 ** (-8 * (h + 1) / below) for h in range(below)]
        between = [2.0 ** (-8 * (h + 1) / (2 * below)) for h in range(0, 2 * below, 2)]
        return tuple(first + between[: heads - below])


@dataclass(frozen=True)
class T5Bias(ToeplitzBias):
    """One learned scalar per head and bucket of offsets: small ones have a bucket each, larger
    ones share buckets that widen logarithmically up to `max_distance`, which all beyond share.

    bidirectional: keys before and after a query have different buckets; otherwise all keys after
    it share the bucket of offset 0, which is enough for causal models.
    """

    buckets: int = 32
    max_distance: int = 128
    bidirectional: bool = True

    def __post_init__(self) -> None:
        sides = 2 if self.bidirectional else 1
        if at_least_one("buckets", self.buckets) < 2 * sides or self.buckets % sides:
            raise InvalidArgument(
                f"buckets={self.buckets}: expected an even number, 4 or more; with "
                "bidirectional=False any number from 2 on"
            )
        exact = self.buckets // sides // 2
        if at_least_one("max_distance", self.max_distance) <= exact:
            raise InvalidArgument(
                f"max_distance={self.max_distance}: expected more than {exact}, the "
                "distances that have "
                f"a bucket each with buckets={self.buckets}"
            )

    def label(self, offset: torch.Tensor) -> torch.Tensor:
        """The bucket, 0, ..., buckets - 1, of i - j."""
        side = self.buckets // 2 if self.bidirectional else self.buckets
        distance = offset.abs() if self.bidirectional else offset.clamp(min=0)
        exact = side // 2
        # T5 computes the logarithm in float32, and so do we: buckets change where it rounds
        growth = (distance.clamp(min=exact).float() / exact).log()
        wide = exact + (growth / math.log(self.max_distance / exact) * (side - exact)).long()
        bucket = torch.where(distance < exact, distance, wide.clamp(max=side - 1))
        return bucket + side * (offset < 0) if self.bidirectional else bucket


@dataclass(frozen=True)
class RelativeBias(ToeplitzBias):
    """One learned scalar per head and offset."""

    def label(self, offset: torch.Tensor) -> torch.Tensor:
        return offset
