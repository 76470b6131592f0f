"""Fused forms: the same function as the network, evaluated by look-up, or once for all tokens.

`covers` says for which inputs the form is exact; all others must go through the blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch

from anyseq.construct.counting.lattice import strides
from anyseq.construct.tables.fused_adaptive import HatTable
from anyseq.construct.tables.fused_cells import Quantised, ShiftedGrids
from anyseq.construct.tables.fused_ridges import RidgeTable
from anyseq.construct.tables.fused_soft import SoftTable
from anyseq.construct.tables.relu_net import FittedNet
from anyseq.errors import FileProblem, InvalidArgument


class Fused(Protocol):
    """x (batch, tokens, features) in float64."""

    def covers(self, x: torch.Tensor) -> torch.Tensor:
        """(batch,) bool."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, out_features), for covered inputs."""

    def tensors(self) -> dict[str, torch.Tensor]:
        """Its numbers, to be saved."""

    def facts(self) -> dict[str, Any]:
        """The rest, to be saved."""


@dataclass(frozen=True)
class KuhnTable:
    """Piecewise-linear interpolation of values at the nodes {0, ..., m}^D / m.

    In the cube with lower corner b, the fractions y = mx - b in descending order y_(1) >= ... >=
    y_(D) say how to walk from b to b + (1, ..., 1): the simplex has the D+1 nodes on that walk, and
    weights 1 - y_(1), y_(1) - y_(2), ..., y_(D). The cost does not depend on the number of nodes.
    """

    kind: ClassVar[str] = "kuhn"
    steps: int
    values: torch.Tensor  # ((m+1)^D, tokens, out_features)

    def covers(self, x: torch.Tensor) -> torch.Tensor:
        return ((x >= 0) & (x <= 1)).flatten(1).all(1)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        _, rows, weights = self.simplex(x)
        return torch.einsum("bk,bkno->bno", weights, self.values[rows])

    def simplex(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The lower corner of x's cube (batch, D), in steps, and the nodes of its simplex: their
        rows in `values` and their weights (batch, D+1)."""
        scaled = x.flatten(1) * self.steps
        corner = scaled.floor().clamp(0, self.steps - 1)
        fraction, order = (scaled - corner).sort(dim=1, descending=True)
        stride = torch.tensor(strides(self.steps + 1, scaled.shape[1]))
        walk = torch.cat([(corner.long() @ stride)[:, None], stride[order]], dim=1).cumsum(1)
        weight = -torch.diff(
            fraction, dim=1, prepend=torch.ones_like(fraction[:, :1]), append=0 * fraction[:, :1]
        )
        return corner, walk, weight

    def tensors(self) -> dict[str, torch.Tensor]:
        return {"values": self.values}

    def facts(self) -> dict[str, Any]:
        return {"kind": self.kind, "steps": self.steps}


@dataclass(frozen=True)
class CellTable:
    """One value per cell: what the network of Theorem 2 or 3 computes off its ramps.

    With positions row r of `values` belongs to the sequence of token cells with number r. Without,
    to the increasing sequence with number keys[r], found by binary search; a sequence with equal
    tokens gives 0.

    offsets: what E adds to each token before the quantiser: 0, ..., n-1 in some order, or all 0.
    """

    kind: ClassVar[str] = "cells"
    steps: int
    ramp: float
    end: float  # entries above it are not covered
    positions: bool
    values: torch.Tensor  # (sequences, tokens, out_features)
    keys: torch.Tensor  # (sequences,) int64, increasing
    offsets: tuple[int, ...]

    def __post_init__(self) -> None:
        tokens = self.values.shape[1]
        object.__setattr__(self, "offsets", tuple(self.offsets))  # JSON has lists only
        if sorted(self.offsets) != [token * self.positions for token in range(tokens)]:
            raise InvalidArgument(f"offsets {self.offsets} of {tokens} tokens")

    def covers(self, x: torch.Tensor) -> torch.Tensor:
        cell, rest = self._cells(x)
        inside = (cell >= 0) & (cell < self.steps) & (rest <= 1 / self.steps - self.ramp)
        return (inside & (x <= self.end)).flatten(1).all(1)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        tokens, features = x.shape[1:]
        token = self.cells(x) @ torch.tensor([self.steps**feature for feature in range(features)])
        place = torch.tensor(strides(self.steps**features, tokens))
        if self.positions:
            return self.values[token @ place]
        ascending, order = token.sort(dim=1)
        row = torch.searchsorted(self.keys, ascending @ place).clamp(max=len(self.keys) - 1)
        distinct = (ascending.diff(dim=1) > 0).all(1)
        found = torch.where(distinct[:, None, None], self.values[row], 0.0)
        return torch.zeros_like(found).scatter(1, order[:, :, None].expand_as(found), found)

    def cells(self, x: torch.Tensor) -> torch.Tensor:
        """The cell of each entry within its token's range: (batch, tokens, features) int64."""
        return self._cells(x)[0].long()

    def _cells(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The cell of each entry within its token's range, and how far into it the entry lies.

        Computed from x + E as the network rounds it.
        """
        base = torch.tensor(self.offsets, dtype=torch.float64)[:, None]
        moved = x + base
        cell = (moved * self.steps).floor()
        return cell - base * self.steps, moved - cell / self.steps

    def tensors(self) -> dict[str, torch.Tensor]:
        return {"values": self.values, "keys": self.keys}

    def facts(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "steps": self.steps,
            "ramp": self.ramp,
            "end": self.end,
            "positions": self.positions,
            "offsets": list(self.offsets),
        }


_KINDS: dict[str, type[Fused]] = {
    form.kind: form
    for form in (
        KuhnTable,
        HatTable,
        RidgeTable,
        CellTable,
        Quantised,
        ShiftedGrids,
        SoftTable,
        FittedNet,
    )
}


def fused_from(facts: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> Fused:
    """The form that `facts` and `tensors` describe."""
    values: dict[str, Any] = {**facts, **tensors}
    form = _KINDS.get(values.pop("kind", None))
    if form is None:
        raise FileProblem(f"fused form {facts!r} is not known; expected {', '.join(_KINDS)}")
    try:
        return form(**values)
    except TypeError as problem:
        raise FileProblem(f"fused form cannot be read: {problem}") from None
