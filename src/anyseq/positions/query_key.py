"""Encodings that act on queries and keys: their scores mix offset and content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from anyseq.base import at_least_one, positive
from anyseq.errors import InvalidArgument
from anyseq.positions.position import Place, Position
from anyseq.positions.scaling import RotaryScaling, scaling_from_dict


@dataclass(frozen=True)
class Rotary(Position):
    """RoPE: queries and keys are turned by angles that grow with the position, so that q_i·k_j
    depends on i and j through i - j only.

    Of the d turned features of a head, t and t + d/2 form a plane, turned by p base^(-2t/d) at
    position p.

    share: of a head's features, the first ones, that are turned; the others are left as they are.
    scaling: Linear, NTK, YaRN or Llama3 of `anyseq.positions`, for long contexts.
    """

    base: float = 10000.0
    share: float = 1.0
    scaling: RotaryScaling | None = None

    def __post_init__(self) -> None:
        positive("base", self.base)
        if positive("share", self.share) > 1:
            raise InvalidArgument(f"share={self.share}: expected a number in (0, 1]")
        if isinstance(self.scaling, Mapping):
            object.__setattr__(self, "scaling", scaling_from_dict(self.scaling))
        if not isinstance(self.scaling, RotaryScaling | None):
            raise InvalidArgument(
                f"scaling={self.scaling!r}: expected a scaling such as anyseq.positions.YaRN(4.0)"
            )

    @property
    def acts_in(self) -> frozenset[Place]:
        return frozenset({Place.QUERY_KEY})

    def turn(self, x: torch.Tensor, first: int) -> torch.Tensor:
        """x (..., n, size) with size even, turned by the angles of the positions first, first + 1,
        ...
        """
        turned = self.turned(x.shape[-1])
        # angles reach the length of the sequence: half precision has too few digits for them
        wide = torch.promote_types(x.dtype, torch.float32)
        positions = torch.arange(first, first + x.shape[-2], dtype=wide, device=x.device)
        even = torch.arange(0, turned, 2, dtype=wide, device=x.device)
        # to the bit as trained models compute it: long sequences multiply what it is off by
        omega = 1.0 / self.base ** (even / turned)
        length = 1.0
        if self.scaling is not None:
            omega, length = self.scaling.scaled(omega, self.base), self.scaling.length
        angles = positions[:, None] * omega
        cos, sin = (angles.cos() * length).to(x.dtype), (angles.sin() * length).to(x.dtype)
        a, b = x[..., :turned].chunk(2, dim=-1)
        rest = [x[..., turned:]] if turned < x.shape[-1] else []
        return torch.cat([a * cos - b * sin, a * sin + b * cos, *rest], dim=-1)

    def __repr__(self) -> str:
        """Without the share and scaling that most models have."""
        names = [name for name in self.to_dict() if name != "kind"]
        return f"Rotary({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def to_dict(self) -> dict[str, Any]:
        """As in the base class; newer fields are left out where they have their defaults."""
        plain = super().to_dict()
        usual = {"share": 1.0, "scaling": None}
        return {
            name: value
            for name, value in plain.items()
            if name not in usual or value != usual[name]
        }

    def turned(self, size: int) -> int:
        """How many features of a head of that size are turned: pairs, and one of them at least."""
        return 2 * max(1, int(size * self.share) // 2)


@dataclass(frozen=True)
class Shaw(Position):
    """Shaw et al.: learned vectors a_r, r = clip(i - j, ±max_distance), added to the keys and to
    the values: scores q_i·(k_j + a^K_r), outputs Σ_j w_ij (v_j + a^V_r). All heads share them."""

    max_distance: int = 16

    def __post_init__(self) -> None:
        at_least_one("max_distance", self.max_distance)

    @property
    def acts_in(self) -> frozenset[Place]:
        return frozenset({Place.QUERY_KEY})

    def label(self, offset: torch.Tensor) -> torch.Tensor:
        """The row 0, ..., 2 max_distance of the tables that an offset i - j uses."""
        return offset.clamp(-self.max_distance, self.max_distance) + self.max_distance
