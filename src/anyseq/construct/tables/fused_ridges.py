"""The fused form of one wide layer: ridges, each looked up between two knots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from anyseq.base import power_of_two_at_least
from anyseq.construct.tables.ridges import Ridges
from anyseq.construct.tables.tensors import check_tensor
from anyseq.errors import InvalidArgument

_BATCH = 1 << 22  # numbers looked up at a time


@dataclass(frozen=True)
class RidgeTable:
    """constant + Σ_r φ_r(κ_r·x), each φ_r linear between its knots, as in
    `anyseq.construct.tables.ridges`.

    values: f at the nodes, (nodes, tokens, out_features). knots: φ at the knots of all ridges, one
    after the other, (knots, tokens, out_features), multiples of a power of two. directions: (R, D).
    low: the least u of each ridge; rate: the knots to a unit of u; pieces, first: how many pieces,
    and where its knots begin.
    """

    kind: ClassVar[str] = "ridges"
    steps: int
    values: torch.Tensor
    constant: torch.Tensor  # (tokens, out_features)
    knots: torch.Tensor
    directions: torch.Tensor
    low: torch.Tensor
    rate: torch.Tensor
    pieces: torch.Tensor
    first: torch.Tensor

    @classmethod
    def of(cls, ridges: Ridges, values: torch.Tensor, unit: float, features: int) -> RidgeTable:
        """unit: the power of two of which knots are multiples.

        features: of a token; token i uses nothing but the ridges of tokens 0, ..., i if that is all
        that its values depend on; 0 if every token uses all.
        """
        constant, knots = ridges.profiles(values)
        if features:
            used = ridges.directions.abs().unflatten(1, (-1, features)).sum(2).flip(1).cumsum(1)
            later = torch.cat([used.flip(1)[:, 1:], torch.zeros_like(used[:, :1])], dim=1) > 0
            row = torch.repeat_interleave(torch.arange(len(later)), ridges.pieces + 1)
            knots = torch.where(later[row][:, :, None], 0.0, knots)
        return cls(
            steps=ridges.steps,
            values=values,
            constant=(constant / unit).round() * unit,
            knots=(knots / unit).round() * unit,
            directions=ridges.directions.double(),
            low=ridges.low.double(),
            rate=(ridges.steps * ridges.harmonics).double(),
            pieces=ridges.pieces,
            first=ridges.first,
        )

    def __post_init__(self) -> None:
        count, rest = len(self.low), tuple(self.constant.shape)
        check_tensor("constant", self.constant, (None, None))
        check_tensor("values", self.values, (None, *rest))
        check_tensor("knots", self.knots, (None, *rest))
        check_tensor("directions", self.directions, (count, None))
        for name in ("low", "rate"):
            check_tensor(name, getattr(self, name), (count,))
        for name in ("pieces", "first"):
            check_tensor(name, getattr(self, name), (count,), torch.int64)
        if torch.compiler.is_compiling():  # a graph has no numbers yet; they were looked at before
            return
        if not bool((self.rate > 0).all()):
            raise InvalidArgument("tensor 'rate': expected numbers above 0")
        if not bool((self.pieces >= 1).all()):
            raise InvalidArgument("tensor 'pieces': expected 1 or more for each ridge")
        if not bool(((self.first >= 0) & (self.first < len(self.knots) - self.pieces)).all()):
            raise InvalidArgument(f"tensor 'first': expected ridges within {len(self.knots)} knots")

    def covers(self, x: torch.Tensor) -> torch.Tensor:
        return ((x >= 0) & (x <= 1)).flatten(1).all(1)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_compiling():  # a graph is for batches of any size
            return self._sum(x)
        size = len(self.first) * self.constant.numel()
        return torch.cat([self._sum(part) for part in x.split(max(1, _BATCH // max(size, 1)))])

    def _sum(self, x: torch.Tensor) -> torch.Tensor:
        u = (x.flatten(1) @ self.directions.T - self.low) * self.rate
        piece = torch.minimum(u.floor().clamp(min=0.0), self.pieces.double() - 1)
        share = (u - piece)[..., None]
        row = self.first + piece.long()
        flat = self.knots.flatten(1)
        found = flat[row] + share * (flat[row + 1] - flat[row])
        by_token: torch.Tensor = found.sum(1).unflatten(1, tuple(self.constant.shape))
        return self.constant + by_token

    def tensors(self) -> dict[str, torch.Tensor]:
        return {
            "values": self.values,
            "constant": self.constant,
            "knots": self.knots,
            "directions": self.directions,
            "low": self.low,
            "rate": self.rate,
            "pieces": self.pieces,
            "first": self.first,
        }

    def facts(self) -> dict[str, Any]:
        return {"kind": self.kind, "steps": self.steps}


def knot_unit(total: float, degree: int) -> float:
    """Knots whose amplitudes add up to `total` are moved to multiples of this: slopes, at most
    π N·total, and what they change by at a knot are then multiples of it below 2^53, exactly."""
    return power_of_two_at_least(max(total, 2.0**-900) * (degree + 1)) * 2.0**-49
