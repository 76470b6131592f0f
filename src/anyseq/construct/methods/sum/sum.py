"""Method "sum": f_i(X) = ψ(x_i, Σ_j φ(x_j)), for f that commute with permutations of the tokens.

Sup norm, any n and d, equal tokens too. One attention layer, with all scores 0: it sums φ over the
tokens, in any design that can (`anyseq.construct.methods.sum.average`); BOS is one more token whose
cell is known. (The form is that of Deep Sets and Sumformer; φ has 2S numbers here.)

A token's cell in a grid of δ^-d = M cells gets a number w(cell) such that the sum over n-1 tokens
says which n-1 cells they are in (`anyseq.construct.methods.sum.weights`). So the integer

    key = 2^e w(own cell) + Σ_j w(cell of x_j),    2^e > n max w,

encodes the token's own cell and the multiset of all, and windows around the keys look f up, at the
cells' centres. Cells have ramps between them, where keys are not whole numbers. So there are S =
D+1 grids, D = nd, with borders shifted so that an entry is on, or within γ of, a ramp of one grid
at most: the D entries spoil at most D grids. Every token computes for every grid how much its
entries spoil it, b_s; the sums are gathered beside the keys, and `fill` turns them into weights w_s
of sum 1, with w_s = 0 where an entry is on a ramp of grid s. The gates of the windows of grid s are
w_s. Hence

    T_i(X) = Σ_s w_s f_i(centres of the cells of X in grid s),

a mean of values of f at sequences whose entries lie within δ/2 + 2Sγ of those of X: a cell ends at
most 2Sγ from a multiple of δ. (f commutes with permutations, so nothing depends on their order.)

    |f - T| <= L (δ/2 + 2Sγ),    γ = δ / (256 S rounded up to a power of two):

at most 1/64 above Lδ/2, the price of one value per cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from anyseq.base import EXACT_BITS, UNIT_ROUNDOFF, Progress, power_of_two_at_least
from anyseq.construct.counting.multisets import count, first_equals, log2_count, multisets
from anyseq.construct.gadgets import Room, clear, fill, windows
from anyseq.construct.gathering import Heads
from anyseq.construct.methods.grid import ByWindows, Grid
from anyseq.construct.methods.recipe import Construction
from anyseq.construct.methods.sum.average import average, averaging_heads, averaging_layer
from anyseq.construct.methods.sum.weights import largest_weight, separating_weights
from anyseq.construct.request import needs
from anyseq.construct.request.ask import Ask
from anyseq.construct.request.error import Term, combine
from anyseq.construct.request.target import Target
from anyseq.construct.tables.fused_cells import ShiftedGrids, border
from anyseq.errors import CannotApproximate, ConstructionFault
from anyseq.nn import Layers, Stack, StackShape

NAME = "sum"

_LOG2_MOST_CELLS = 22  # beyond the memory for their layers; a plan counts no further


def recipe(ask: Ask) -> SumRecipe:
    """The coarsest grid that meets the tolerance."""
    needs.feed_forward(ask.design)
    needs.lipschitz(ask)
    layer = averaging_layer(ask.design, ask.norm, ask.verdicts)
    log_steps = max(1, ask.least_log_steps)
    while True:
        found = SumRecipe(ask, log_steps, layer)
        size = found.log2_cells
        if size > _LOG2_MOST_CELLS:
            raise CannotApproximate(
                f"it needs δ <= 2^-{log_steps}: over 2^{int(size)} multisets of cells"
            )
        if found.id_bits > EXACT_BITS:
            raise CannotApproximate(
                f"it needs δ <= 2^-{log_steps}, where keys take {found.id_bits} bits and float64 "
                f"holds {EXACT_BITS}"
            )
        if combine(found.terms, ask.norm, ask.p) <= ask.tol:
            return found
        rounding = found.terms[1].value
        if rounding > ask.tol:  # a finer grid rounds no less
            raise CannotApproximate(
                f"tol={ask.tol:g} is below the proved bound for rounding in float64, {rounding:.2g}"
            )
        log_steps += 1


@dataclass(frozen=True)
class SumRecipe(Grid, ByWindows):
    """The network for some grids; `layer` is the pattern of the cycle that takes the sums."""

    layer: int = 0
    method: str = NAME
    notes: tuple[str, ...] = ()
    exceptional: float = 0.0

    @property
    def shifts(self) -> int:
        """S: one grid more than entries can spoil."""
        return self.ask.axes + 1

    @property
    def ramp(self) -> float:
        """γ."""
        return 1.0 / (self.steps * 256 * power_of_two_at_least(self.shifts))

    @property
    def log2_cells(self) -> float:
        """log2 of `cells`, or of M if that is enough to be far too many."""
        log2_token_cells = self.log_steps * self.ask.features
        if log2_token_cells > _LOG2_MOST_CELLS:
            return float(log2_token_cells)
        return log2_count(self.token_cells, self.ask.design.tokens)

    @property
    def cells(self) -> int:
        return count(self.token_cells, self.ask.design.tokens)

    @property
    def keys(self) -> int:
        """How many (own cell, multiset of the others' cells) there are."""
        return self.token_cells * count(self.token_cells, self.ask.design.tokens - 1)

    @property
    def _others(self) -> int:
        return max(1, self.ask.design.tokens - 1)

    @cached_property
    def base(self) -> int:
        """2^e, above every sum of n weights, or n + 1 with BOS."""
        top = self.ask.design.size * largest_weight(self.token_cells, self._others)
        return 1 << top.bit_length()

    @cached_property
    def id_bits(self) -> int:
        """The bits of the largest key in quarters: windows have corners at k ± 1/4.

        Adding the sum to 2^e w(own) rounds by at most 1/8, half an ulp below 2^51; before that the
        sum, below 2^e, rounds in attention by at most (n+12)u 2^e <= 1/16: 2^e is at most 4n max w
        and max w at most 2^51/2^e, so 2^e <= sqrt(n) 2^27, and M = 2, w = 1 if n > 2^12, there
        being 2^22 multisets at most. Together that is less than the 1/4 that windows allow.
        """
        largest = self.base * (largest_weight(self.token_cells, self._others) + 1)
        return largest.bit_length() + 2

    @property
    def _off_centre(self) -> float:
        """The largest distance of an entry from the centre of its cell in a grid that counts."""
        return 0.5 / self.steps + 2 * self.shifts * self.ramp

    @property
    def _rounding(self) -> float:
        """Weights round three times, products and sums once; below 2^-960 underflow would count."""
        return 8 * self.shifts * UNIT_ROUNDOFF * max(self.ask.bound, 2.0**-960)

    @property
    def pointwise(self) -> float:
        return self.ask.lipschitz * self._off_centre + self._rounding

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        ask = self.ask
        factor = ask.spread  # all entries may err as much as the largest
        return (
            Term(
                "cells",
                factor * ask.lipschitz * self._off_centre,
                "cells",
                f"L(δ/2 + 2Sγ): f against its values at cells' centres, L = {ask.lipschitz:g}, "
                f"δ = 2^-{self.log_steps}, S = {self.shifts} grids",
            ),
            Term(
                "rounding",
                factor * self._rounding,
                "cells",
                "float64, in the weights of the grids and the sum over them",
            ),
        )

    def room_for(self, chunk: int) -> Room:
        nodes_at = self._bad_at + self.shifts
        hidden = max(2 * chunk, 2 * self.ask.features, 2 * self.shifts)
        return Room(width=nodes_at + chunk, hidden=hidden, nodes_at=nodes_at, chunk=chunk)

    # Features: input/output | number of a cell | keys (S) | badness, then weights (S) | nodes.
    @property
    def _keys_at(self) -> int:
        return self.number_at + 1

    @property
    def _bad_at(self) -> int:
        return self._keys_at + self.shifts

    def shape_in(self, room: Room) -> StackShape:
        ask, borders = self.ask, room.layers(self.steps - 1)
        before = 2 * ask.features * borders + room.layers(self.token_cells) + 1
        front = self.shifts * before
        wait = self.wait(self.layer, front)
        layers = front + 1 + (1 + self.shifts) + self.shifts * room.layers(self.keys)
        return StackShape(
            tokens=ask.design.tokens,
            in_features=ask.features,
            out_features=ask.out_features,
            width=room.width,
            heads=self.heads.count,
            head_dim=self.heads.size,
            hidden=room.hidden,
            layers=ask.layers(wait + layers),
            attention_layers=1,
            feedforward_layers=layers,
            positions=False,
            bos=ask.design.bos,
            sinks=bool(ask.design.sinks),
            inside=tuple(self.heads.tables.items()),
        )

    @cached_property
    def heads(self) -> Heads:
        return averaging_heads(self.ask.design, self.layer, 2 * self.shifts)

    def build(self, target: Target, progress: Progress) -> Construction:
        ask, cells = self.ask, multisets(self.token_cells, self.ask.design.tokens)
        values = target(self.centres(cells), progress, "evaluate f at the cells' centres")
        # equal tokens have equal outputs: those of the first
        same = first_equals(cells)
        values = values.gather(1, same[:, :, None].expand_as(values))

        weights = torch.tensor(separating_weights(self.token_cells, self._others))
        own = same == torch.arange(ask.design.tokens)
        keys = (self.base * weights[cells] + weights[cells].sum(1, keepdim=True))[own]
        ascending = keys.sort().values
        if len(keys) != self.keys or not bool((ascending.diff() > 0).all()):
            raise ConstructionFault(f"{self.keys} keys expected; {len(ascending.unique())} differ")
        if int(ascending[-1]).bit_length() + 2 > self.id_bits:
            raise ConstructionFault(f"key {int(ascending[-1])} has more bits than were planned")
        fused = ShiftedGrids(self.steps, self.ramp, self.shifts, values)
        return Construction(
            fused,
            lambda: self._model(weights, keys, values[own]),
            float(values.abs().max()),
            {"grids": f"{self.shifts}", "keys": f"{len(keys):,}, all different"},
        )

    def _model(self, weights: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> Stack:
        ask, room = self.ask, self.room
        runs: list[Layers] = []
        for shift in range(self.shifts):
            runs += self._cell_weight(shift, weights)
        runs.append(Layers(idle=self.wait(self.layer, sum(map(len, runs)))))
        runs.append(self._sums())
        # BOS, all zeros, is in cell 0 of every grid
        keys = keys.double() + float(weights[0]) * ask.design.bos
        runs.append(
            fill(
                self.shifts,
                at=self._bad_at,
                rest_at=self.number_at,
                hidden=room.hidden,
                width=room.width,
            )
        )
        for shift in range(self.shifts):
            runs.append(
                windows(
                    keys - 0.25,
                    keys + 0.25,
                    values,
                    slope=2.0,
                    at=self._keys_at + shift,
                    into=0,
                    room=room,
                    gate=self._bad_at + shift,
                )
            )
        nothing = torch.zeros(room.width, dtype=torch.float64)
        return Stack.of(
            ask.design,
            runs,
            in_features=ask.features,
            out_features=ask.out_features,
            bos=nothing if ask.design.bos else None,
        )

    def _cell_weight(self, shift: int, weights: torch.Tensor) -> list[Layers]:
        """2^e w(cell) and the badness of one grid; the cell is counted up first."""
        room = self.room
        low = border(
            torch.arange(1, self.steps).double(),
            shift,
            steps=self.steps,
            ramp=self.ramp,
            shifts=self.shifts,
        )
        high, slope = low + self.ramp, 1 / self.ramp
        runs = []
        for axis in range(self.ask.features):
            place = torch.full_like(low, self.steps**axis)[:, None]
            beyond = torch.full_like(low, 2.0)
            runs += [
                windows(high, beyond, place, slope=slope, at=axis, into=self.number_at, room=room),
                windows(
                    low,
                    high,
                    torch.ones_like(place),
                    slope=slope,
                    at=axis,
                    into=self._bad_at + shift,
                    room=room,
                ),
            ]
        cell = torch.arange(self.token_cells).double()
        own = (self.base * weights).double()[:, None]
        into = self._keys_at + shift
        runs.append(
            windows(
                cell - 0.25, cell + 0.25, own, slope=2.0, at=self.number_at, into=into, room=room
            )
        )
        empty = clear(1, at=self.number_at, hidden=room.hidden, width=room.width)
        return [*runs, Layers(feedforward=empty)]

    def _sums(self) -> Layers:
        """The means, times n (n + 1 with BOS), of both features of every grid.

        They are added to the token's own ones. Badness counts twice, so that one token on a ramp
        makes it more than 1 in every token, despite rounding. Then the inputs are cleared, to make
        room for the outputs, and the number of the cell, 0 by now, is set to 1 for `fill`.
        """
        room, size = self.room, float(self.ask.design.size)
        factors = torch.tensor([size / self.base, 2 * size], dtype=torch.float64).repeat_interleave(
            self.shifts
        )
        attention = average(
            self.heads, self.layer, room.width, first=self._keys_at, factors=factors
        )
        feedforward = clear(self.ask.features, at=0, hidden=room.hidden, width=room.width)
        feedforward.down_bias[0, self.number_at] = 1.0
        return Layers(attention=attention, feedforward=feedforward)
