"""Rotary angles for sequences longer than those a model was trained on.

Each scaling changes the frequencies ω_t of `Rotary`; scores still depend on i - j only.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from anyseq.base import at_least_one, positive
from anyseq.errors import InvalidArgument

_KINDS: dict[str, type[RotaryScaling]] = {}


@dataclass(frozen=True)
class RotaryScaling(ABC):
    """The base of every scaling; `factor` is by how much the context grows."""

    factor: float

    def __init_subclass__(cls) -> None:
        _KINDS[cls.__name__] = cls

    def __post_init__(self) -> None:
        if positive("factor", self.factor) < 1:
            raise InvalidArgument(f"factor={self.factor}: expected a number from 1 on")

    @abstractmethod
    def scaled(self, omega: torch.Tensor, base: float) -> torch.Tensor:
        """(planes,) the frequencies, from those of `Rotary`: ω_t = base^(-t/planes)."""

    @property
    def length(self) -> float:
        """The factor of turned queries and keys."""
        return 1.0

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready description; `scaling_from_dict` reads it back."""
        return {"kind": type(self).__name__} | asdict(self)


@dataclass(frozen=True)
class Linear(RotaryScaling):
    """Position interpolation: position p is turned as p / factor was."""

    def scaled(self, omega: torch.Tensor, base: float) -> torch.Tensor:
        return omega / self.factor


@dataclass(frozen=True)
class NTK(RotaryScaling):
    """A larger base, base·factor^(d/(d-2)) for d turned features: the fastest plane is left as it
    is, the slowest turns `factor` times slower."""

    def scaled(self, omega: torch.Tensor, base: float) -> torch.Tensor:
        planes = len(omega)
        if planes == 1:  # there is only the fastest
            return omega
        t = torch.arange(planes, dtype=omega.dtype, device=omega.device)
        return omega * self.factor ** (-t / (planes - 1))


@dataclass(frozen=True)
class YaRN(RotaryScaling):
    """Planes that turn more than beta_fast times within the `original` context are left as they
    are, those that turn less than beta_slow times are slowed down by `factor`, those between are
    blended.

    attention_factor: the factor of turned queries and keys, 0.1 ln(factor) + 1 unless given.
    truncate: the borders between the planes are rounded to whole planes.
    """

    original: int = 4096
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    truncate: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_one("original", self.original)
        if positive("beta_slow", self.beta_slow) > positive("beta_fast", self.beta_fast):
            raise InvalidArgument(
                f"beta_slow={self.beta_slow}, beta_fast={self.beta_fast}: expected slow <= fast"
            )
        if self.attention_factor is not None:
            positive("attention_factor", self.attention_factor)

    def scaled(self, omega: torch.Tensor, base: float) -> torch.Tensor:
        planes = len(omega)

        def plane(turns: float) -> float:
            """The plane that turns so many times within the original context."""
            return planes * math.log(self.original / (turns * 2 * math.pi)) / math.log(base)

        low, high = plane(self.beta_fast), plane(self.beta_slow)
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, 2 * planes - 1)
        t = torch.arange(planes, dtype=omega.dtype, device=omega.device)
        # a step has no slope: it is made a very steep one
        slow = ((t - low) / (high - low if high != low else 0.001)).clamp(0, 1)
        return omega / self.factor * slow + omega * (1 - slow)

    @property
    def length(self) -> float:
        if self.attention_factor is not None:
            return self.attention_factor
        return 0.1 * math.log(self.factor) + 1.0


@dataclass(frozen=True)
class Llama3(RotaryScaling):
    """Planes that turn more than high_frequency times within the `original` context are left as
    they are, those that turn less than low_frequency times are slowed down by `factor`, those
    between are blended."""

    original: int = 8192
    low_frequency: float = 1.0
    high_frequency: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_one("original", self.original)
        if positive("low_frequency", self.low_frequency) >= positive(
            "high_frequency", self.high_frequency
        ):
            raise InvalidArgument(
                f"low_frequency={self.low_frequency}, high_frequency={self.high_frequency}: "
                "expected low < high"
            )

    def scaled(self, omega: torch.Tensor, base: float) -> torch.Tensor:
        turns = self.original * omega / (2 * math.pi)
        fast = (turns - self.low_frequency) / (self.high_frequency - self.low_frequency)
        fast = fast.clamp(0, 1)
        return (1 - fast) * omega / self.factor + fast * omega


def scaling_from_dict(description: Mapping[str, Any]) -> RotaryScaling:
    """The scaling that `to_dict` described."""
    values = dict(description)
    kind = values.pop("kind", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InvalidArgument(f"scaling kind={kind!r}: expected one of {', '.join(sorted(_KINDS))}")
    try:
        return _KINDS[kind](**values)
    except TypeError as problem:
        raise InvalidArgument(f"scaling {kind} cannot be read from {values}: {problem}") from None
