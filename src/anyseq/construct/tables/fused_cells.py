"""Fused forms of networks that look values up by cells: of tokens in order, or of their multiset.

`Quantised` is one grid, exact off its ramps. `ShiftedGrids` blends as many grids as it takes for
one of them to have no entry on a ramp, so it covers the whole cube.

A table of multisets has a row for every multiset of n cells, in the order of
`anyseq.construct.counting.multisets`, and in it the outputs of the tokens in ascending order of
their cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from anyseq.construct.counting.lattice import strides
from anyseq.construct.counting.multisets import first_equals, number


def token_cells(cell: torch.Tensor, steps: int) -> torch.Tensor:
    """(..., d) cells of the entries -> (...) the number Σ_a cell_a steps^a of the token's cell."""
    return cell @ torch.tensor([steps**axis for axis in range(cell.shape[-1])])


def look_up(values: torch.Tensor, tokens: torch.Tensor, cells: int) -> torch.Tensor:
    """Outputs (batch, n, out) for token cells (batch, n), from a table of multisets."""
    ascending, order = tokens.sort(dim=1)
    rows = number(ascending, cells)[:, None]
    found = values[rows, first_equals(ascending)]
    return torch.zeros_like(found).scatter(1, order[:, :, None].expand_as(found), found)


@dataclass(frozen=True)
class Quantised:
    """One value per sequence of cells; entries within `ramp` below a cell's end are not covered.

    With positions row r of `values` belongs to the sequence of token cells with number r, the last
    token fastest; without, it is a table of multisets.
    """

    kind: ClassVar[str] = "quantised"
    steps: int
    ramp: float
    positions: bool
    values: torch.Tensor  # (sequences or multisets, tokens, out_features)

    def covers(self, x: torch.Tensor) -> torch.Tensor:
        end = ((x * self.steps).floor() + 1).clamp(max=self.steps) / self.steps
        clear = (x <= end - self.ramp) | (end == 1.0)
        return (clear & (x >= 0) & (x <= 1)).flatten(1).all(1)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        cell = (x * self.steps).floor().clamp(max=self.steps - 1).long()
        tokens = token_cells(cell, self.steps)
        cells = self.steps ** x.shape[2]
        if self.positions:
            return self.values[tokens @ torch.tensor(strides(cells, x.shape[1]))]
        return look_up(self.values, tokens, cells)

    def tensors(self) -> dict[str, torch.Tensor]:
        return {"values": self.values}

    def facts(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "steps": self.steps,
            "ramp": self.ramp,
            "positions": self.positions,
        }


@dataclass(frozen=True)
class ShiftedGrids:
    """Σ_s w_s(x) values[multiset of the cells of x in grid s], as method "sum" has it.

    Grid s has its borders at `border`; an entry in [border, border + ramp] makes the grid useless
    (badness 1), one within a ramp of that a little (falling to 0). Token i weighs the grids in turn
    with what is left of 1 and at most ReLU(1 - its badness - 2·everybody's).
    """

    kind: ClassVar[str] = "shifted"
    steps: int
    ramp: float
    shifts: int
    values: torch.Tensor  # (multisets, tokens, out_features)

    def covers(self, x: torch.Tensor) -> torch.Tensor:
        return ((x >= 0) & (x <= 1)).flatten(1).all(1)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(*x.shape[:2], self.values.shape[2], dtype=torch.float64)
        left = torch.ones(x.shape[:2], dtype=torch.float64)
        nearest = (x * self.steps).round().clamp(1, self.steps - 1)
        for shift in range(self.shifts):
            low = border(nearest, shift, steps=self.steps, ramp=self.ramp, shifts=self.shifts)
            high = low + self.ramp
            outside = (low - x).relu() + (x - high).relu()
            bad = (1 - outside / self.ramp).relu().sum(2)
            good = (1 - bad - 2 * bad.sum(1, keepdim=True)).relu()
            after = (left - good).relu()
            cell = (nearest - (x < high).double()).long()
            values = look_up(self.values, token_cells(cell, self.steps), self.steps ** x.shape[2])
            total += (left - after)[:, :, None] * values
            left = after
        return total

    def tensors(self) -> dict[str, torch.Tensor]:
        return {"values": self.values}

    def facts(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "steps": self.steps,
            "ramp": self.ramp,
            "shifts": self.shifts,
        }


def border(cell: torch.Tensor, shift: int, *, steps: int, ramp: float, shifts: int) -> torch.Tensor:
    """Where the ramp before a cell (1, ..., steps-1) begins in grid `shift`.

    cδ + (4s - 2S + 1)γ: the ramp and a margin γ on both sides lie in the s-th of S intervals of
    length 4γ around cδ.
    """
    return cell / steps + (4 * shift - 2 * shifts + 1) * ramp
