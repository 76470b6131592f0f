"""Patterns that depend on the offset i - j only."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch

from anyseq.base import at_least_one, whole
from anyseq.errors import InvalidArgument
from anyseq.patterns.pattern import LengthFree


class OffsetPattern(LengthFree):
    """i attends to j where `allows(i - j)`; the mask is Toeplitz, and declared so."""

    @abstractmethod
    def allows(self, offset: torch.Tensor) -> torch.Tensor:
        """Whether a token attends to the one `offset` places before it (after it, if negative)."""

    def __call__(
        self, b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor
    ) -> torch.Tensor:
        return self.allows(i - j)

    def offsets(self, n: int) -> torch.Tensor:
        return self.allows(torch.arange(1 - n, n))


@dataclass(frozen=True)
class Full(OffsetPattern):
    """Every token attends to every token: A_i = {0, ..., n-1}."""

    def allows(self, offset: torch.Tensor) -> torch.Tensor:
        return torch.ones_like(offset, dtype=torch.bool)


@dataclass(frozen=True)
class Causal(OffsetPattern):
    """Every token attends to itself and to those before it: A_i = {0, ..., i}."""

    @property
    def prefix_stable(self) -> bool:
        return True

    def allows(self, offset: torch.Tensor) -> torch.Tensor:
        return offset >= 0


@dataclass(frozen=True, init=False, repr=False)
class Window(OffsetPattern):
    """Every token attends to its neighbours: A_i = {j : -after <= i-j <= before}.

    Window(4) and Window(radius=4) extend 4 tokens to both sides, Window(4, 0) and Window(before=4,
    after=0) only back. Every token attends to itself, with Window(0) to no other.
    """

    before: int
    after: int

    def __init__(
        self, before: int | None = None, after: int | None = None, *, radius: int | None = None
    ) -> None:
        given = (before is not None, after is not None, radius is not None)
        if given not in ((True, True, False), (True, False, False), (False, False, True)):
            raise InvalidArgument(
                f"before={before}, after={after}, radius={radius}: expected window(radius) or "
                "window(before, after), such as window(4) or window(4, 0)"
            )
        if after is None:
            reach = whole("radius", before if radius is None else radius)
            sides = reach, reach
        else:
            sides = whole("before", before), whole("after", after)
        for name, reach in zip(("before", "after"), sides, strict=True):
            object.__setattr__(self, name, reach)

    @classmethod
    def from_sliding(cls, width: int) -> Window:
        """The window of Hugging Face's causal models with sliding_window=width: the token itself
        and the width - 1 before it. The same mask as Window(width - 1) & Causal()."""
        return cls(before=at_least_one("width", width) - 1, after=0)

    @property
    def radius(self) -> int:
        """How far the window extends, if equally far to both sides."""
        if self.before != self.after:
            raise AttributeError(f"{self!r} has no radius: use .before and .after")
        return self.before

    @property
    def prefix_stable(self) -> bool:
        return self.after == 0

    def allows(self, offset: torch.Tensor) -> torch.Tensor:
        return (offset <= self.before) & (offset >= -self.after)

    def to_dict(self) -> dict[str, Any]:
        if self.before != self.after:
            return super().to_dict()
        return {"kind": "Window", "radius": self.radius}  # what every version can read

    def __repr__(self) -> str:
        if self.before == self.after:
            return f"Window(radius={self.radius})"
        return f"Window(before={self.before}, after={self.after})"


@dataclass(frozen=True)
class Dilated(OffsetPattern):
    """A window with gaps: A_i = {j : i-j = t·step, |t| <= radius}."""

    radius: int
    step: int

    def __post_init__(self) -> None:
        reach = at_least_one("radius", self.radius) * at_least_one("step", self.step)
        at_least_one("radius * step", reach)

    def allows(self, offset: torch.Tensor) -> torch.Tensor:
        return (offset.abs() <= self.radius * self.step) & (offset % self.step == 0)


@dataclass(frozen=True)
class Residue(OffsetPattern):
    """Every token attends to those of its residue class: A_i = {j : i-j divisible by stride}."""

    stride: int

    def __post_init__(self) -> None:
        at_least_one("stride", self.stride)

    def allows(self, offset: torch.Tensor) -> torch.Tensor:
        return offset % self.stride == 0


@dataclass(frozen=True)
class LogSparse(OffsetPattern):
    """Every token attends to itself and to tokens at distances that are powers of two: |i-j| in {0,
    1, 2, 4, 8, ...}."""

    def allows(self, offset: torch.Tensor) -> torch.Tensor:
        distance = offset.abs()
        return (distance & (distance - 1)) == 0  # 0 & -1 = 0: the token itself
