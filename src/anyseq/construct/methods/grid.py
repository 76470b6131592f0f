"""The common part of networks that look f up by cells; those of one grid do so off its ramps.

There T is f at the centre of the cell of x, so |f - T| <= Lδ/2, and less in the mean. Within γ of a
cell's upper end the token's number is not a whole number, but windows do not overlap, so |T| stays
below the largest |f|: no clip is needed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Self

import torch

from anyseq.construct.gadgets import Room, narrowest_ramp, windows
from anyseq.construct.request.ask import Ask
from anyseq.construct.request.error import Term, combine
from anyseq.errors import CannotApproximate
from anyseq.nn import Layers, StackShape


@dataclass(frozen=True)
class Grid:
    """Cells of width δ = 2^-log_steps."""

    ask: Ask
    log_steps: int

    @property
    def steps(self) -> int:
        """1/δ."""
        return int(2**self.log_steps)

    @property
    def token_cells(self) -> int:
        """M."""
        return int(self.steps**self.ask.features)

    @property
    def number_at(self) -> int:
        """The feature, after inputs and outputs, that gets the number of the token's cell."""
        return max(self.ask.features, self.ask.out_features)

    def centres(self, cells: torch.Tensor) -> torch.Tensor:
        """(S, n) numbers of cells -> (S, n, d) their centres."""
        strides = torch.tensor([self.steps**axis for axis in range(self.ask.features)])
        return ((cells[:, :, None] // strides % self.steps).double() + 0.5) / self.steps

    def wait(self, turn: int, layers: int) -> int:
        """How many blocks must pass after so many until pattern `turn` of the cycle is next."""
        return (turn - layers) % len(self.ask.design.cycle)


class ByWindows(ABC):
    """A network that looks keys up by windows, as many at a time as needs the fewest parameters, or
    as the design is deep enough for."""

    ask: Ask

    @property
    @abstractmethod
    def keys(self) -> int:
        """How many there are."""

    @abstractmethod
    def room_for(self, chunk: int) -> Room:
        """The room with so many windows at a time."""

    @abstractmethod
    def shape_in(self, room: Room) -> StackShape:
        """The shape of the network."""

    @cached_property
    def room(self) -> Room:
        rooms = (self.room_for(2**log_chunk) for log_chunk in range(self.keys.bit_length()))
        return min(rooms, key=self._cost)

    def _cost(self, room: Room) -> tuple[int, int]:
        """Number of layers beyond the design's depth, then of parameters."""
        shape = self.shape_in(room)
        return shape.layers - (self.ask.design.depth or shape.layers), shape.parameters

    @cached_property
    def shape(self) -> StackShape:
        return self.shape_in(self.room)


@dataclass(frozen=True)
class OneGrid(Grid, ABC):
    """A grid with ramps."""

    @property
    @abstractmethod
    def log2_keys(self) -> float:
        """log2 of the number of keys, or more than is allowed."""

    @classmethod
    def fine_enough(cls, ask: Ask, log2_most_keys: int) -> Iterator[Self]:
        """Grids that meet the tolerance, the coarsest first, until they have too many keys."""
        for log_steps in count(max(1, ask.least_log_steps)):
            grid = cls(ask, log_steps)
            if grid.log2_keys > log2_most_keys:
                raise CannotApproximate(
                    f"it needs δ <= 2^-{log_steps}: over 2^{int(grid.log2_keys)} keys"
                )
            if combine(grid.grid_terms, ask.norm, ask.p) <= ask.tol:
                yield grid

    @property
    def ramp(self) -> float:
        """γ: as narrow as float64 allows, since wider ramps only add to the exceptional measure."""
        return narrowest_ramp(1.0)

    @property
    def off_centre(self) -> float:
        """The most that f can differ from its value at the cell's centre."""
        return self.ask.lipschitz / self.steps / 2

    @property
    def on_ramps(self) -> float:
        """The measure of the inputs with an entry on a ramp."""
        share = self.ramp * (self.steps - 1)
        return -math.expm1(self.ask.axes * math.log1p(-share))

    @property
    def grid_terms(self) -> tuple[Term, Term]:
        """The error terms of the grid and of its ramps."""
        ask = self.ask
        share = ask.spread * (ask.axes / (ask.axes + ask.p)) ** (1 / ask.p)
        return (
            Term(
                "cells",
                self.off_centre * share,
                "cells",
                f"L δ/2 (n·d_out·D/(D+p))^(1/p): f against its value at the cell's centre, "
                f"L = {ask.lipschitz:g}, δ = 2^-{self.log_steps}",
            ),
            Term(
                "ramps",
                self.on_ramps ** (1 / ask.p) * ask.spread * 2 * ask.bound,
                "ramps",
                f"inputs within γ = 2^{round(math.log2(self.ramp))} of a cell's upper end, measure "
                f"{self.on_ramps:.2g}, where |T| <= max|f|",
            ),
        )

    def numbering(self, room: Room) -> list[Layers]:
        """Layers that add Σ_a cell_a steps^a to the token's number."""
        ends = torch.arange(1, self.steps).double() / self.steps
        return [
            windows(
                ends,
                torch.full_like(ends, 2.0),  # beyond all entries
                torch.full_like(ends, self.steps**axis)[:, None],
                slope=1 / self.ramp,
                at=axis,
                into=self.number_at,
                room=room,
            )
            for axis in range(self.ask.features)
        ]
