"""Method "yun": Theorems 2 and 3 of Yun et al. (ICLR 2020) as written, in T^{2,1,4}.

Blocks of at most 2 heads of size 1 and 4 hidden ReLUs, of width d, softmax, no layer norm:

    clip, banish    Theorem 2 only: entries outside [0, 1) far below 0
    quantise        entries to a grid of step δ (positions: X + E, E_j = (j-1)(1, ..., 1))
    selective shifts, global shift
                    token ids become ids of (token, whole sequence): the contextual mapping
    erase           Theorem 2 only: sequences with equal or banished tokens become 0
    rescale         ids become as small as their gaps allow, so that little is lost to rounding
    value map       one layer per id: the id becomes f at the centre of the cell
    clip            what missed every value window comes back into the range of f

Theorem 3 (`positions`) serves any f, Theorem 2 those that commute with permutations. Theorem 2
holds values only for sequences whose tokens lie in different cells, up to order: n·C(δ^-d, n)
layers instead of n·δ^-nd. A sequence with two tokens in one cell gives 0, as in the paper: that is
part of the L^p error, O(δ^(d/p)). So does one with an entry outside [0, 1), where the paper's f is
0: further out than the width of a ramp, and up to 2^53, where float64 still knows it from others.

Where out_features is not features the width is the larger of the two; missing features are 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch

from anyseq.base import (
    EXACT_BITS,
    UNIT_ROUNDOFF,
    Progress,
    power_of_two_at_least,
    power_of_two_at_most,
)
from anyseq.construct import needs
from anyseq.construct.ask import Ask, Construction
from anyseq.construct.contextual import Contextual
from anyseq.construct.error import LP, Term, combine
from anyseq.construct.fused import CellTable
from anyseq.construct.gadgets import (
    banish,
    banish_ramp,
    clip,
    clip_layers,
    erase,
    erase_layers,
    global_shift,
    narrowest_ramp,
    quantise,
    rescale,
    rescaled,
    selective_shifts,
    value_map,
    written,
)
from anyseq.construct.lattice import strides
from anyseq.construct.methods.yun_stages import stages
from anyseq.construct.target import Target
from anyseq.errors import CannotApproximate, ConstructionFault
from anyseq.nn import Layers, Stack, StackShape
from anyseq.positions import Absolute, NoPosition

NAME = "yun"


def recipe(ask: Ask) -> YunRecipe:
    """The coarsest grid that meets the tolerance."""
    needs.dense_softmax(ask.design)
    needs.plain_blocks(ask.design)
    if ask.norm != LP:
        raise CannotApproximate("its guarantee is in L^p only; ask for the norm 'lp'")
    if not isinstance(ask.design.position, (Absolute, NoPosition)):
        raise CannotApproximate("it needs absolute positions, or none")
    log_steps = max(1, ask.least_log_steps)
    while True:
        found = YunRecipe(ask, log_steps)
        if found.id_bits > EXACT_BITS:
            raise CannotApproximate(
                f"it needs δ <= 2^-{log_steps}, where ids, for |f| <= {ask.bound:.4g}, take "
                f"{found.id_bits} bits and float64 holds {EXACT_BITS}"
            )
        if found.cells and combine(found.terms, ask.norm, ask.p) <= ask.tol:
            return found
        log_steps += 1


@dataclass(frozen=True)
class YunRecipe:
    """The network for one grid step δ = 2^-log_steps."""

    ask: Ask
    log_steps: int
    method: str = NAME

    @property
    def step(self) -> float:
        """δ."""
        return 2.0**-self.log_steps

    @property
    def positions(self) -> bool:
        """Theorem 3 (True) or Theorem 2."""
        return isinstance(self.ask.design.position, Absolute)

    @property
    def width(self) -> int:
        """The width of the network: d, unless f has more outputs."""
        return max(self.ask.features, self.ask.out_features)

    @cached_property
    def context(self) -> Contextual:
        """The contextual mapping of this grid."""
        return Contextual(
            self.ask.design.tokens, self.ask.features, self.width, self.log_steps, self.positions
        )

    @property
    def quantised_cells(self) -> int:
        """Cells per feature: with positions a feature ranges over [0, n)."""
        return self.context.steps * (self.ask.design.tokens if self.positions else 1)

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

    @property
    def _ceiling(self) -> float:
        """No target has a larger u·y."""
        return self.ask.bound * sum(self.context.digits)

    @cached_property
    def lift(self) -> int:
        """A constant, in units of δ, that puts every id above twice every target."""
        if self.context.largest.bit_length() > EXACT_BITS:
            return 0  # too large already, perhaps for a float
        least = 2 * self._ceiling / self.step + 4
        return 0 if least <= self.context.lowest else int(power_of_two_at_least(least))

    @property
    def _lowest(self) -> float:
        return (self.context.lowest + self.lift) * self.step

    @property
    def _largest(self) -> float:
        return (self.context.largest + self.lift) * self.step

    @cached_property
    def scale(self) -> float:
        """A power of two that shrinks the ids before the value map, which rounds at their size.

        Shrinking rounds, too, by up to u·largest: at most half of the gap may go that way, and the
        lowest id must stay above twice every target.
        """
        gap = self.context.least_gap * self.step
        if self.context.least_gap < 64:  # windows must stay wider than the grid of the ids
            return 1.0
        least = max(4 * UNIT_ROUNDOFF * self._largest / gap, 2 * self._ceiling / self._lowest)
        return min(1.0, power_of_two_at_least(least))

    @property
    def half_width(self) -> float:
        """Half the width of a value window: half the gap that is left, and clear of the targets."""
        gap = self.context.least_gap * self.step * self.scale
        left = gap if self.scale == 1.0 else gap / 2
        return power_of_two_at_most(min(left / 2, self._lowest * self.scale / 2))

    @property
    def id_bits(self) -> int:
        """The bits of the largest id in units of δ, or of δ/4 if the windows have corners there."""
        finer = 2 if self.context.least_gap < 4 else 0
        return (self.context.largest + self.lift).bit_length() + finer

    @property
    def _rounding(self) -> float:
        """What the value map may lose in an entry: half an ulp of the id."""
        return UNIT_ROUNDOFF * (self._largest * self.scale + self.ask.bound)

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
        ask, context = self.ask, self.context
        windows = context.token_cells * (ask.design.tokens if self.positions else 1)
        theorem_2 = clip_layers(ask.features) + ask.features + erase_layers(self.width)
        feedforward = (
            ask.features * self.quantised_cells
            + (0 if self.positions else theorem_2)
            + 1  # rescale
            + self.cells * ask.design.tokens
            + clip_layers(ask.out_features)
        )
        return StackShape(
            tokens=ask.design.tokens,
            in_features=ask.features,
            out_features=ask.out_features,
            width=self.width,
            heads=2,
            head_dim=1,
            hidden=4,
            layers=windows + 1 + feedforward,
            attention_layers=windows + 1,
            feedforward_layers=feedforward + 1,
            positions=self.positions,
        )

    def build(self, target: Target, progress: Progress) -> Construction:
        context, ask = self.context, self.ask
        sequences = context.sequences()
        progress("check the contextual mapping", 0, len(sequences))
        ids = context.final_ids(sequences)
        distinct, gap = context.check(sequences, ids)
        sequences, ids = sequences[distinct], ids[distinct]
        if len(sequences) != self.cells:
            raise ConstructionFault(f"{len(sequences)} sequences, expected {self.cells}")
        progress("check the contextual mapping", len(ids), len(ids))

        digit = torch.tensor(context.digits)
        coordinates = sequences[:, :, None] // digit[: ask.features] % context.steps
        centres = (coordinates.double() + 0.5) * self.step
        wanted = torch.zeros(*ids.shape, self.width, dtype=torch.float64)
        wanted[:, :, : ask.out_features] = target(
            centres, progress, "evaluate f at the cells' centres"
        )

        # The token in the network: quantised entries plus E, feature 0 so that u·z is the id.
        real_ids = (ids + self.lift).double() * self.step
        low, high = float(real_ids.min()), float(real_ids.max())
        current = torch.zeros_like(wanted)
        current[:, :, : ask.features] = coordinates.double() * self.step
        if self.positions:
            current += torch.arange(ask.design.tokens, dtype=torch.float64)[:, None]
        others = current[:, :, 1:] @ digit[1:].double()
        current[:, :, 0] = rescaled(real_ids, self.scale) - others
        real_ids = rescaled(real_ids, self.scale)
        _check_windows(real_ids, self.half_width, self._ceiling)

        values = written(current, wanted)[:, :, : ask.out_features]
        keys = sequences @ torch.tensor(strides(context.token_cells, ask.design.tokens))
        fused = CellTable(context.steps, self.ramp, self.end, self.positions, values, keys)
        bound = float(values.abs().max())

        def model() -> Stack:
            runs = self._before_values(low, high)
            runs.append(
                value_map(
                    ids=real_ids.flatten(),
                    current=current.flatten(0, 1),
                    targets=wanted.flatten(0, 1),
                    half_width=self.half_width,
                    digits=context.digits,
                )
            )
            runs.append(clip(features=ask.out_features, width=self.width, bound=bound))
            position = torch.arange(ask.design.tokens, dtype=torch.float64)[:, None]
            return Stack.of(
                ask.design,
                runs,
                in_features=ask.features,
                out_features=ask.out_features,
                position=position.repeat(1, self.width) if self.positions else None,
            )

        largest = float(wanted.abs().max())
        checked = {"smallest id gap": f"{gap:,} δ"}
        return Construction(fused, model, largest, checked, stages(self))

    def _before_values(self, low: float, high: float) -> list[Layers]:
        """All layers before the value map; good ids lie in [low, high]."""
        context, features = self.context, self.ask.features
        step, width, digits = self.step, self.width, context.digits
        runs = []
        if not self.positions:
            # banish rounds at the size of the entries: first make them small
            runs.append(clip(features=features, width=width, bound=2.0))
            runs.append(banish(features=features, width=width, depth=self.depth))
        cells, ramp = self.quantised_cells, self.ramp
        runs.append(quantise(features=features, width=width, cells=cells, step=step, ramp=ramp))
        runs.append(
            selective_shifts(
                windows=context.windows, step=step, digits=digits, shift=context.selective_shift
            )
        )
        runs.append(
            global_shift(
                step=step, digits=digits, shift=context.global_shift, lift=self.lift * step
            )
        )
        if not self.positions:
            slack = (self.depth + 1) * sum(digits)
            runs.append(erase(low=low, high=high, slack=slack, step=step, digits=digits))
        runs.append(rescale(scale=self.scale, digits=digits))
        return runs


def _check_windows(ids: torch.Tensor, half_width: float, ceiling: float) -> None:
    """The windows of the value map must not touch one another, nor any target."""
    ascending = ids.flatten().sort().values
    if (ascending.diff() < 2 * half_width).any() or float(ascending[0]) - half_width < ceiling:
        raise ConstructionFault(f"value windows of half width {half_width:g} overlap")
