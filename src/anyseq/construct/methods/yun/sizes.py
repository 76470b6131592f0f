"""The sizes and the error of a network of method "yun", before anything is built."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from anyseq.base import EXACT_BITS, UNIT_ROUNDOFF
from anyseq.construct.contextual import Contextual
from anyseq.construct.contextual.mapping import ShiftLayers
from anyseq.construct.contextual.route import Route
from anyseq.construct.contextual.sparse import SparseContextual
from anyseq.construct.gadgets import banish_ramp, clip_layers, erase_layers, narrowest_ramp
from anyseq.construct.methods.yun.gain import (
    GainPositions,
    heads_of,
    inside_shapes,
    shares_gain,
    uses_gain,
)
from anyseq.construct.methods.yun.windows import Windows
from anyseq.construct.request.ask import Ask
from anyseq.construct.request.error import ROUNDING, Term
from anyseq.construct.request.smooth import Bound
from anyseq.nn import StackShape
from anyseq.patterns import Full
from anyseq.positions import NoPosition

NAME = "yun"


@dataclass(frozen=True)
class YunSizes:
    """The network for one grid step δ = 2^-log_steps.

    route: through sparse patterns; dense attention may have one, too, where the ids of Theorem 3
    take too many bits or round too much. None: Theorems 2 and 3.
    """

    ask: Ask
    log_steps: int
    method: str = NAME
    route: Route | None = None
    carried: bool = False

    @property
    def step(self) -> float:
        """δ."""
        return 2.0**-self.log_steps

    @property
    def positions(self) -> bool:
        """Theorem 2 has none."""
        return not isinstance(self.ask.design.position, NoPosition)

    @property
    def features(self) -> int:
        """w: the features that hold the tokens: d, unless f has more outputs."""
        return max(self.ask.features, self.ask.out_features)

    @property
    def width(self) -> int:
        """The width of the network: w, and the extra feature if there is one."""
        return self.features + (self.carried or uses_gain(self.ask.design))

    @cached_property
    def gain(self) -> GainPositions | None:
        """The source of positions, if not the input."""
        design = self.ask.design
        if not uses_gain(design):
            return None
        if self.route is None:
            everybody = torch.ones(1, design.tokens, design.tokens)
            return GainPositions.giving(design, everybody, range(design.tokens))
        return GainPositions.giving(design, self.route.masks, self.route.offsets)

    @cached_property
    def context(self) -> Contextual | SparseContextual:
        """The contextual mapping of this grid."""
        grid = (self.ask.design.tokens, self.ask.features, self.features, self.log_steps)
        if self.route is None:
            return Contextual(*grid, self.positions)
        first = self.ask.features * self.quantised_cells + (
            self.gain.size.layers if self.gain else 0
        )
        return SparseContextual(*grid, self.route, first, self.carried)

    @property
    def digits(self) -> list[int]:
        """The weight of each feature in an id; that of the extra one is 0."""
        return self.context.digits + [0] * (self.width - self.features)

    @property
    def quantised_cells(self) -> int:
        """Cells per feature: with positions a feature ranges over [0, n)."""
        return (self.ask.design.tokens if self.positions else 1) << self.log_steps

    @property
    def ramp(self) -> float:
        """γ: as narrow as float64 allows, since wider ramps only add to the exceptional measure."""
        return narrowest_ramp(self.quantised_cells * self.step)

    @property
    def depth(self) -> float:
        """How far below 0 Theorem 2 banishes entries outside [0, 1): δ^-nw."""
        return float(self.context.steps ** (self.ask.design.tokens * self.width))

    @property
    def end(self) -> float:
        """The largest entry that is surely left in the domain: Theorem 2 has a ramp before 1."""
        return 1.0 if self.positions else 1.0 - banish_ramp(self.depth)

    @property
    def cells(self) -> int:
        """How many sequences of cells have values: all, or those of different cells, up to
        order."""
        cells, tokens = self.context.token_cells, self.ask.design.tokens
        return cells**tokens if self.positions else math.comb(cells, tokens)

    @cached_property
    def windows(self) -> Windows:
        """The windows of the value map."""
        return Windows(self.context, self.ask.bound)

    @property
    def id_bits(self) -> int:
        """The bits that ids need."""
        return self.windows.id_bits

    @property
    def notes(self) -> tuple[str, ...]:
        ask, notes = self.ask, []
        if ask.out_features > ask.features:
            more = ask.out_features - ask.features
            notes.append(f"{more} features of zeros are added to hold the outputs")
        if self.carried:
            bits = replace(self, carried=False).id_bits
            notes.append(
                "one extra feature carries the largest id: all-max-shift would take "
                f"{bits} bits{_beyond(bits)}"
            )
        if self.route and self.ask.design.cycle == (Full(),):
            bits = replace(self, route=None).id_bits
            notes.append(
                "ids grow along a route, as for sparse patterns: those of Theorem 3 would take "
                f"{bits} bits{_beyond(bits)}"
            )
        if self.gain:
            head = ", and a third head, since layers share the gain" if self.heads > 2 else ""
            notes.append(f"positions come from the gain of a constant feature{head}")
        return tuple(notes)

    @property
    def heads(self) -> int:
        """2, or 3 with a head for positions."""
        return heads_of(self.ask.design)

    @property
    def _rounding(self) -> float:
        """What the value map may lose in an entry: target - current rounds at the size of the id,
        current + (target - current) at that of the target. Below 2^-960 underflow would count."""
        id_size = self.windows.largest * self.windows.scale
        return UNIT_ROUNDOFF * (id_size + 3 * max(self.ask.bound, 2.0**-960))

    @property
    def reach(self) -> float:
        """A bound for |f| and for |T| after the clip."""
        return self.ask.bound + self._rounding

    @property
    def ramp_measure(self) -> float:
        """The measure of the inputs with an entry on a ramp."""
        share = self.ramp / self.step + (1.0 - self.end)
        return -math.expm1(self.ask.axes * math.log1p(-share))

    @property
    def repeat_measure(self) -> float:
        """Theorem 2: the measure of the sequences with two tokens in one cell."""
        if self.positions:
            return 0.0
        cells = self.context.token_cells
        return 1 - math.prod(
            max(0, cells - token) / cells for token in range(self.ask.design.tokens)
        )

    def _off_centre(self, p: float) -> Bound:
        ask = self.ask
        return ask.smoothness.off_centre(ask.design.tokens, ask.features, self.step, p)

    @property
    def pointwise(self) -> float:
        off_centre = self._off_centre(math.inf).value + self._rounding
        return off_centre if self.positions else max(off_centre, self.ask.bound)

    @property
    def exceptional(self) -> float:
        return min(1.0, self.ramp_measure + self.repeat_measure)

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        ask = self.ask
        off_centre = self._off_centre(ask.p)
        everywhere = ask.spread
        terms = [
            Term(
                "cells",
                off_centre.value * everywhere,
                "cells",
                f"f against its value at the cell's centre: {off_centre.why}",
            ),
            Term(
                ROUNDING,
                self._rounding * everywhere,
                "cells",
                "half an ulp of the rescaled ids, where the value map subtracts them",
            ),
            Term(
                "ramps",
                self.ramp_measure ** (1 / ask.p) * everywhere * 2 * self.reach,
                "ramps",
                f"inputs within γ = 2^{round(math.log2(self.ramp))} of a cell's upper end, measure "
                f"{self.ramp_measure:.2g}, clipped",
            ),
        ]
        if not self.positions:
            terms.append(
                Term(
                    "repeats",
                    self.repeat_measure ** (1 / ask.p) * everywhere * ask.bound,
                    "repeats",
                    f"two tokens in one cell, measure {self.repeat_measure:.2g}, mapped to 0",
                )
            )
        return tuple(terms)

    @cached_property
    def shape(self) -> StackShape:
        ask, design, shifts = self.ask, self.ask.design, self.context.size
        before = self.gain.size if self.gain else ShiftLayers(0, 0, 0)
        theorem_2 = clip_layers(ask.features) + ask.features + erase_layers(self.width)
        feedforward = (
            ask.features * self.quantised_cells
            + (0 if self.positions else theorem_2)
            + 1  # rescale
            + self.cells * design.tokens
            + clip_layers(ask.out_features)
        )
        return StackShape(
            tokens=design.tokens,
            in_features=ask.features,
            out_features=ask.out_features,
            width=self.width,
            heads=self.heads,
            head_dim=1,
            hidden=4,
            layers=ask.layers(before.layers + shifts.layers + feedforward),
            attention_layers=before.attention + shifts.attention,
            feedforward_layers=before.feedforward + shifts.feedforward + feedforward,
            positions=self.positions and not self.gain,
            constant=self.gain is not None,
            gains=2 * design.tokens - 1 if shares_gain(design) else 0,
            inside=inside_shapes(design),
        )

    @property
    def position(self) -> torch.Tensor:
        """(n, width): E."""
        table = torch.zeros(self.ask.design.tokens, self.width, dtype=torch.float64)
        table[:, : self.features] = torch.tensor(self.context.offsets)[:, None]
        return table


def _beyond(bits: int) -> str:
    """Further problems of ids with so many bits."""
    return "" if bits > EXACT_BITS else " and round too much"
