"""Method "yun": the constructions of Yun et al. as written, with the positions of Luo et al.

Theorems 2 and 3 of Yun et al. (ICLR 2020), dense attention; Theorem 1 of Yun et al. (NeurIPS 2020),
sparse attention; and both with URPE (Luo et al., NeurIPS 2022) in place of absolute positions.
Blocks of at most 2 heads of size 1 and 4 hidden ReLUs, of width d, any probability map that can put
all its weight on one token, no layer norm:

    positions       URPE only: the gain gives every token its E (`yun_gain`)
    clip, banish    Theorem 2 only: entries outside [0, 1) far below 0
    quantise        entries to a grid of step δ (positions: X + E)
    shifts          token ids become ids of (token, whole sequence): the contextual mapping
    erase           Theorem 2 only: sequences with equal or banished tokens become 0
    rescale         ids become as small as their gaps allow, so that little is lost to rounding
    value map       one layer per id: the id becomes f at the centre of the cell
    clip            what missed every value window comes back into the range of f

Theorem 3 (`positions`) serves any f, Theorem 2 those that commute with permutations. Theorem 2
holds values only for sequences whose tokens lie in different cells, up to order: n·C(δ^-d, n)
layers instead of n·δ^-nd. A sequence with two tokens in one cell gives 0, as in the paper: that is
part of the L^p error, O(δ^(d/p)). So does one with an entry outside [0, 1), where the paper's f is
0: further out than the width of a ramp, and up to 2^53, where float64 still knows it from others.

Where out_features is not features the width is the larger of the two; missing features are 0. A
constant channel for URPE, and the maximum that is carried where all-max-shift would need too many
bits, share one extra feature. It is 0 from the value map on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from anyseq.base import EXACT_BITS, UNIT_ROUNDOFF, Progress
from anyseq.construct import needs
from anyseq.construct.ask import Ask, Construction
from anyseq.construct.contextual import Contextual
from anyseq.construct.contextual_sparse import SparseContextual
from anyseq.construct.error import LP, Term, combine
from anyseq.construct.fused import CellTable
from anyseq.construct.gadgets import (
    CONSTANT,
    banish,
    banish_ramp,
    clip,
    clip_layers,
    deciding_gap,
    erase,
    erase_layers,
    narrowest_ramp,
    quantise,
    rescale,
    rescaled,
    value_map,
    written,
)
from anyseq.construct.lattice import strides
from anyseq.construct.mapping import ShiftLayers
from anyseq.construct.methods.yun_gain import (
    GainPositions,
    check_base,
    heads_of,
    inside_shapes,
    muted,
    shared_ones,
    shares_gain,
    uses_gain,
)
from anyseq.construct.methods.yun_shifts import dense_shifts, sparse_shifts
from anyseq.construct.route import Route
from anyseq.construct.target import Target
from anyseq.construct.windows import Windows
from anyseq.design import Design
from anyseq.errors import CannotApproximate, ConstructionFault
from anyseq.nn import Layers, Stack, StackShape
from anyseq.patterns import Full
from anyseq.positions import URPE, Absolute, NoPosition

NAME = "yun"


def recipe(ask: Ask) -> YunRecipe:
    """The coarsest grid that meets the tolerance; the literal network, if it can."""
    needs.plain_blocks(ask.design)
    deciding_gap(ask.design.probability)
    if ask.norm != LP:
        raise CannotApproximate("its guarantee is in L^p only; ask for the norm 'lp'")
    route = _route(ask.design)
    log_steps = max(1, ask.least_log_steps)
    while True:
        literal = YunRecipe(ask, log_steps, route=route)
        candidates = [literal]
        if isinstance(literal.context, SparseContextual) and literal.context.spread[1] > 1:
            candidates.append(replace(literal, carried=True))
        fitting = [found for found in candidates if found.id_bits <= EXACT_BITS]
        if not fitting:
            bits = " or ".join(str(found.id_bits) for found in candidates)
            raise CannotApproximate(
                f"it needs δ <= 2^-{log_steps}, where ids, for |f| <= {ask.bound:.4g}, take "
                f"{bits} bits and float64 holds {EXACT_BITS}"
            )
        for found in fitting:
            if found.cells and combine(found.terms, ask.norm, ask.p) <= ask.tol:
                return found
        log_steps += 1


def _route(design: Design) -> Route | None:
    """The way through the patterns, None where attention is dense."""
    position = design.position
    if isinstance(position, URPE):
        check_base(position)
    elif not isinstance(position, (Absolute, NoPosition)):
        raise CannotApproximate(
            f"it needs learned absolute positions, URPE or none; no construction of its kind is "
            f"known for {type(position).__name__}"
        )
    if design.cycle == (Full(),):
        return None
    if isinstance(position, NoPosition):
        raise CannotApproximate("without positions it is built for dense attention, Full()")
    return Route.through(design, heads_of(design))


@dataclass(frozen=True)
class YunRecipe:
    """The network for one grid step δ = 2^-log_steps."""

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
        """Where positions come from, if not from the input."""
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
        first = self.ask.features * self.quantised_cells + (self.gain.size.layers if self.gain else 0)
        return SparseContextual(*grid, self.route, first, self.carried)

    @property
    def digits(self) -> list[int]:
        """What each feature counts in an id; the extra one counts nothing."""
        return self.context.digits + [0] * (self.width - self.features)

    @property
    def quantised_cells(self) -> int:
        """Cells per feature: with positions a feature ranges over [0, n)."""
        return (self.ask.design.tokens if self.positions else 1) << self.log_steps

    @property
    def ramp(self) -> float:
        """γ: as narrow as float64 allows, since ramps cost measure and width gains nothing."""
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
        """How many sequences of cells have values: all, or those of different ones, up to order."""
        cells, tokens = self.context.token_cells, self.ask.design.tokens
        return cells**tokens if self.positions else math.comb(cells, tokens)

    @cached_property
    def windows(self) -> Windows:
        """The windows of the value map."""
        return Windows(self.context, self.ask.bound * sum(self.context.digits))

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
                f"one extra feature carries the largest id: all-max-shift would take {bits} bits"
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
        """What the value map may lose in an entry: half an ulp of the id."""
        return UNIT_ROUNDOFF * (self.windows.largest * self.windows.scale + self.ask.bound)

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

    @property
    def pointwise(self) -> float:
        off_centre = self.ask.lipschitz * self.step / 2 + self._rounding
        return off_centre if self.positions else max(off_centre, self.ask.bound)

    @property
    def exceptional(self) -> float:
        return min(1.0, self.ramp_measure + self.repeat_measure)

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        ask = self.ask
        share = (ask.entries * ask.axes / (ask.axes + ask.p)) ** (1 / ask.p)
        everywhere = ask.entries ** (1 / ask.p)
        terms = [
            Term(
                "cells",
                ask.lipschitz * self.step / 2 * share,
                "cells",
                f"L δ/2 (n·d_out·D/(D+p))^(1/p): f against its value at the cell's centre, "
                f"L = {ask.lipschitz:g}, δ = 2^-{self.log_steps}",
            ),
            Term(
                "rounding",
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
            layers=before.layers + shifts.layers + feedforward,
            attention_layers=before.attention + shifts.attention,
            feedforward_layers=before.feedforward + shifts.feedforward + feedforward,
            positions=self.positions and not self.gain,
            constant=self.gain is not None,
            gains=2 * design.tokens - 1 if shares_gain(design) else 0,
            inside=inside_shapes(design),
        )

    def build(self, target: Target, progress: Progress) -> Construction:
        context, ask, windows = self.context, self.ask, self.windows
        sequences = context.sequences()
        progress("check the contextual mapping", 0, len(sequences))
        ids = context.final_ids(sequences)
        distinct, gap = context.check(sequences, ids)
        sequences, ids = sequences[distinct], ids[distinct]
        if len(sequences) != self.cells:
            raise ConstructionFault(f"{len(sequences)} sequences, expected {self.cells}")
        self._check_positions()
        progress("check the contextual mapping", len(ids), len(ids))

        digit = torch.tensor(self.digits)
        coordinates = sequences[:, :, None] // digit[: ask.features] % context.steps
        centres = (coordinates.double() + 0.5) * self.step
        wanted = torch.zeros(*ids.shape, self.width, dtype=torch.float64)
        wanted[:, :, : ask.out_features] = target(
            centres, progress, "evaluate f at the cells' centres"
        )

        # The token in the network: quantised entries plus E, feature 0 so that u·z is the id.
        real_ids = (ids + windows.lift).double() * self.step
        low, high = float(real_ids.min()), float(real_ids.max())
        current = self.position.repeat(len(ids), 1, 1)
        current[:, :, : ask.features] += coordinates.double() * self.step
        others = current[:, :, 1:] @ digit[1:].double()
        real_ids = rescaled(real_ids, windows.scale)
        current[:, :, 0] = real_ids - others
        _check_windows(real_ids, windows)

        values = written(current, wanted)[:, :, : ask.out_features]
        keys = sequences @ torch.tensor(strides(context.token_cells, ask.design.tokens))
        fused = CellTable(
            context.steps, self.ramp, self.end, self.positions, values, keys, context.offsets
        )
        bound = float(values.abs().max())

        def model() -> Stack:
            return self._stack(
                [
                    *self._before_values(low, high),
                    value_map(
                        ids=real_ids.flatten(),
                        current=current.flatten(0, 1),
                        targets=wanted.flatten(0, 1),
                        half_width=windows.half_width,
                        digits=self.digits,
                    ),
                    clip(features=ask.out_features, width=self.width, bound=bound),
                ],
                ask.out_features,
            )

        largest = float(wanted.abs().max())
        return Construction(fused, model, largest, {"smallest id gap": f"{gap:,} δ"})

    @property
    def position(self) -> torch.Tensor:
        """(n, width): E."""
        table = torch.zeros(self.ask.design.tokens, self.width, dtype=torch.float64)
        table[:, : self.features] = torch.tensor(self.context.offsets)[:, None]
        return table

    def _stack(self, runs: list[Layers], out_features: int) -> Stack:
        design, constant, gain = self.ask.design, None, None
        if self.gain:
            constant = torch.zeros(self.width, dtype=torch.float64)
            constant[-1] = CONSTANT
        if shares_gain(design):
            gain = self.gain.table if self.gain else shared_ones(design)
        return Stack.of(
            design,
            [*self._positions(), *muted(runs, design)],
            in_features=self.ask.features,
            out_features=out_features,
            position=self.position if self.positions and not self.gain else None,
            constant=constant,
            gain=gain,
        )

    def _positions(self) -> list[Layers]:
        """The layers in which the gain makes positions."""
        if not self.gain:
            return []
        return self.gain.layers(features=self.features, width=self.width, at=self.width - 1)

    def _check_positions(self) -> None:
        """What the gain makes of no input must be E, to the bit."""
        if self.gain:
            nothing = torch.zeros(1, self.ask.design.tokens, self.ask.features, dtype=torch.float64)
            with torch.no_grad():
                made = self._stack([], self.width)(nothing)[0]
            if not torch.equal(made, self.position):
                raise ConstructionFault(f"the gain gives positions {made.tolist()}")

    def _before_values(self, low: float, high: float) -> list[Layers]:
        """All layers from the input, with E, to the value map; good ids lie in [low, high]."""
        context, features = self.context, self.ask.features
        step, width, digits = self.step, self.width, self.digits
        runs = []
        if not self.positions:
            # banish rounds at the size of the entries: first make them small
            runs.append(clip(features=features, width=width, bound=2.0))
            runs.append(banish(features=features, width=width, depth=self.depth))
        cells, ramp = self.quantised_cells, self.ramp
        runs.append(quantise(features=features, width=width, cells=cells, step=step, ramp=ramp))
        gap, lift = deciding_gap(self.ask.design.probability), self.windows.lift * step
        if isinstance(context, SparseContextual):
            runs += sparse_shifts(context, step=step, digits=digits, gap=gap, lift=lift)
        else:
            runs += dense_shifts(context, step=step, digits=digits, gap=gap, lift=lift)
        if not self.positions:
            slack = (self.depth + 1) * sum(digits)
            runs.append(erase(low=low, high=high, slack=slack, step=step, digits=digits))
        runs.append(rescale(scale=self.windows.scale, digits=digits))
        return runs


def _check_windows(ids: torch.Tensor, windows: Windows) -> None:
    """The windows of the value map must not touch one another, nor any target."""
    ascending, half_width = ids.flatten().sort().values, windows.half_width
    touching = (ascending.diff() < 2 * half_width).any()
    if touching or float(ascending[0]) - half_width < windows.ceiling:
        raise ConstructionFault(f"value windows of half width {half_width:g} overlap")
