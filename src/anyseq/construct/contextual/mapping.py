"""What every contextual mapping has: a grid, ids in exact integers, and a check of all sequences.

Units: every id is an integer number of δ = 2^-k. Notation: n tokens, w features (width), of which
d vary; u = (1, δ^-1, ..., δ^-(w-1)); a token's id is l = u·z.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch

from anyseq.construct.counting.lattice import lattice
from anyseq.errors import ConstructionFault


class ShiftLayers(NamedTuple):
    """How many layers the shifts take, and how many halves of each kind those have."""

    layers: int
    attention: int
    feedforward: int


@dataclass(frozen=True)
class ContextualMapping(ABC):
    """Ids that name a token and its whole sequence."""

    tokens: int
    features: int
    width: int
    log_steps: int

    @property
    def steps(self) -> int:
        """1/δ."""
        return 1 << self.log_steps

    @property
    def token_cells(self) -> int:
        """How many grid values one token has: δ^-d."""
        return int(self.steps**self.features)

    @property
    def digits(self) -> list[int]:
        """u in integers: (1, δ^-1, ..., δ^-(w-1))."""
        return [self.steps**feature for feature in range(self.width)]

    @property
    @abstractmethod
    def offsets(self) -> tuple[int, ...]:
        """What positions add to every feature of each token: E_j = offsets[j]·(1, ..., 1)."""

    @property
    def spare_bits(self) -> int:
        """Ids must stay so many bits below what float64 holds."""
        return 0

    @property
    def bases(self) -> list[int]:
        """The smallest id of each token, in units: u·E_j / δ."""
        return [offset * self.apart for offset in self.offsets]

    @property
    def apart(self) -> int:
        """The distance of two bases whose offsets differ by 1."""
        return self.steps * sum(self.digits)

    @property
    @abstractmethod
    def size(self) -> ShiftLayers:
        """The layers of the network that make the ids."""

    @property
    @abstractmethod
    def largest(self) -> int:
        """The largest final id."""

    @property
    @abstractmethod
    def lowest(self) -> int:
        """No token of a sequence that gets values has a smaller final id."""

    @property
    @abstractmethod
    def least_gap(self) -> int:
        """Different final ids, of sequences that get values, are at least so many units apart."""

    def sequences(self) -> torch.Tensor:
        """(S, n) int64: the tokens' cells, 0, ..., δ^-d - 1, in every sequence of the grid."""
        return lattice(self.token_cells, self.tokens)

    @abstractmethod
    def final_ids(self, sequences: torch.Tensor) -> torch.Tensor:
        """(S, n) int64: the ids after all shifts, in the order in which the network makes them."""

    def check(self, sequences: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, int]:
        """(distinct, gap): which sequences have values, and the smallest gap between their ids."""
        self._check_good(ids)
        return torch.ones(len(sequences), dtype=torch.bool), self._gap(ids)

    def _gap(self, good: torch.Tensor) -> int:
        ascending = good.flatten().sort().values
        return int(ascending.diff().min()) if len(ascending) > 1 else 1

    def _check_good(self, good: torch.Tensor) -> None:
        """Ids of sequences that get values: all different, and where they are expected."""
        gap, low, high = self._gap(good), int(good.min()), int(good.max())
        if gap < 1:
            raise ConstructionFault(f"contextual mapping: two tokens share an id in {self}")
        if gap < self.least_gap:
            raise ConstructionFault(
                f"contextual mapping: ids {gap} apart, expected {self.least_gap} in {self}"
            )
        if low < self.lowest or high > self.largest:
            raise ConstructionFault(
                f"contextual mapping: ids {low} to {high}, expected {self.lowest} to "
                f"{self.largest} in {self}"
            )
