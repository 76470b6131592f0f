"""Method "gather": the whole sequence into every token, then piecewise-linear interpolation.

Sup norm. For every design that `anyseq.check` proves universal by Theorem 1. Attention is only in
`anyseq.construct.gathering`, after which every token has its position and the whole sequence. The
rest are ReLU layers: the interpolator computes the outputs of all tokens from the gathered
sequence, the selector keeps the token's own. If a design gathers only what came before each token,
f must be causal; the values of token i are then those for zeros after it, so that it does not
matter what its other slots hold.

Error: that of the interpolation, see `anyseq.construct.request.smooth`, and the rounding of
float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol, TypedDict

import torch

from anyseq.base import UNIT_ROUNDOFF, Progress
from anyseq.construct.counting.lattice import causal, lattice
from anyseq.construct.gadgets import (
    Wiring,
    interpolate,
    keep_own,
    least_hidden,
    set_apart,
    summable,
)
from anyseq.construct.gathering import SLOT_ROUNDING, Gathering, Room, gather, least_width
from anyseq.construct.methods.recipe import Construction
from anyseq.construct.network.stages import Reading, Stage, filled_up
from anyseq.construct.request import needs
from anyseq.construct.request.ask import Ask
from anyseq.construct.request.error import ROUNDING, SUP, Term, combine
from anyseq.construct.request.smooth import Bound
from anyseq.construct.request.target import Target
from anyseq.construct.tables.fused import KuhnTable
from anyseq.construct.tables.tensors import scale_of
from anyseq.errors import CannotApproximate
from anyseq.nn import Layers, Stack, StackShape
from anyseq.positions import URPE, Sinusoidal

NAME = "gather"

_CANDIDATES = (
    "Every token computes the outputs of all tokens; those of other tokens are shifted by -2 and "
    "cut off in the next stage."
)
_MOST_NODES = 2**28  # beyond the memory for their layers; a plan counts no further
_MOST_SUMS = 2**52  # (m+1) 2^D of them: what `summable` has room for


def recipe(ask: Ask) -> GatherRecipe:
    """The coarsest grid that meets the tolerance."""
    needs.feed_forward(ask.design)
    _check_nodes(ask, 2**ask.least_log_steps)
    wanted = needs.gathering(ask)
    for log_steps in range(ask.least_log_steps, 53):
        _check_nodes(ask, 2**log_steps)
        found = GatherRecipe(ask, log_steps, wanted)
        if combine(found.terms, ask.norm, ask.p) <= ask.tol:
            return found
        rounding = found.terms[1].value
        if rounding > ask.tol:  # a finer grid rounds more
            break
    raise CannotApproximate(
        f"tol={ask.tol:g} is below the proved bound for rounding in float64, {rounding:.2g}"
    )


def _check_nodes(ask: Ask, steps: int) -> None:
    nodes = (steps + 1) ** ask.axes
    if nodes > _MOST_NODES or (steps + 1) * 2**ask.axes * nodes > _MOST_SUMS:
        raise CannotApproximate(
            f"it needs δ <= 1/{steps}: over 2^{nodes.bit_length() - 1} nodes in "
            f"{ask.axes} dimensions"
        )


class Layout(TypedDict):
    """Which features are what, see `GatherRecipe.layout`."""

    width: int
    slots_at: int
    values_at: int
    scratch: tuple[int, ...]


class Middle(Protocol):
    """The description of the layers between gathering and selecting."""

    @property
    def layers(self) -> int:
        """How many there are."""

    @property
    def hidden(self) -> int:
        """Their ReLUs."""

    @property
    def width(self) -> int:
        """The features that they need."""

    @property
    def slots_at(self) -> int:
        """Where they read the sequence."""

    @property
    def values_at(self) -> int:
        """Where they leave the outputs of all tokens."""


@dataclass(frozen=True)
class GatherRecipe:
    """The network for one grid step δ = 2^-log_steps.

    wanted: what each token must gather, "all" tokens, or for "causal" functions those up to itself.
    """

    ask: Ask
    log_steps: int
    wanted: str = "all"
    method: str = NAME
    id_bits: None = None
    notes: tuple[str, ...] = ()
    exceptional: float = 0.0

    values_label: ClassVar[str] = "candidate outputs, other tokens' shifted by -2"
    adds: ClassVar[str] = (
        "Every token interpolates f between nearby grid points: the values at the nodes around x, "
        "with their weights."
    )

    @property
    def steps(self) -> int:
        """m = 1/δ."""
        return int(2**self.log_steps)

    @property
    def cells(self) -> int:
        return int((self.steps + 1) ** self.ask.axes)

    def _interpolated(self, p: float) -> Bound:
        ask = self.ask
        return ask.smoothness.interpolation(ask.design.tokens, ask.features, 1 / self.steps, p)

    @property
    def pointwise(self) -> float:
        return self._interpolated(math.inf).value + self._rounding()

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        ask = self.ask
        interpolation = self._interpolated(math.inf if ask.norm == SUP else ask.p)
        factor = ask.spread  # all entries may err as much as the largest
        return (
            Term("interpolation", factor * interpolation.value, "cells", interpolation.why),
            Term(
                ROUNDING,
                factor * self._rounding(),
                "cells",
                "float64, worst case over any order of summation",
            ),
        )

    def _rounding(self) -> float:
        """A bound for |computed T - T|, for the blocks and for the look-up; inputs are float64.

        Let V bound Σ|∇f|. All pre-activations sum at most width+1 terms whose sizes add up to at
        most 2m+2: they round by at most `once`. e_i is filled while what was there leaves, hidden+2
        terms of sizes up to 2m+4 together: by this, two pre-activations and the one that leaves ν
        is off by at most `filled` more with each axis (it is no steeper than 1 in what it was
        before). So ReLUs are off by D times that. Their weights and the biases add up to (2D+1)V,
        see `summable`, and to 2n+2 where values are set apart, times B <= 2|f|.

        Values: a layer adds hidden terms; a ReLU is at most m+1. What is summed so far, up to some
        node in lexicographic order, is bounded: nodes up to there and within a box make D boxes at
        most, whose ∇f add up to at most 2^D values of f in all, and ReLU(t-c) adds that up over c,
        at most m+2 times.

        `summable` moves values by at most 2^-51 (2m+2+3D)V. The selector rounds F + 1 once and
        back; the outputs of the other n-1 tokens, F - 1 <= 0, may come out above 0 by what F is
        off, and are added. The look-up rounds D+1 weights, products and sums. Below 2^-960
        underflow would count, so take that.
        """
        ask, wiring, steps, axes = self.ask, self.wiring, self.steps, self.ask.axes
        bound, tokens = max(ask.bound, 2.0**-960), ask.design.tokens
        varies = ask.smoothness.variation(axes, steps, bound)
        varies *= 1 + 2.0**-48 * (steps + 1) * (2 * steps + 2) ** axes  # once moved
        weight = (2 * axes + 1) * varies + 8 * tokens * bound
        once = (wiring.width + 2) * (2 * steps + 2)
        filled = 3 * once + (wiring.hidden + 2) * (2 * steps + 4)
        sums = weight * (axes * filled + (wiring.hidden + 2) * (steps + 1))
        sums += wiring.layers * 2 ** (axes + 1) * (steps + 6) * bound
        moved = 4 * (2 * steps + 2 + 3 * axes) * varies
        units = tokens * sums + moved + (6 * axes + 28) * bound
        return float(units * UNIT_ROUNDOFF + bound * self._moved())

    def _moved(self) -> float:
        """The effect on T, where |f| <= 1, of errors in the slots: along each axis T is no steeper
        than from -1 to 1 in a step. Below 0 ReLU(t) is no longer t, whose weight is at most 2."""
        return 2 * (self.ask.axes + 1) * self.steps * self._slots_off

    @property
    def _slots_off(self) -> float:
        exact = not isinstance(self.ask.design.position, URPE | Sinusoidal)
        return 0.0 if exact else SLOT_ROUNDING

    @cached_property
    def wiring(self) -> Wiring:
        """As many layers per fibre as make the fewest parameters."""
        best, least = self._wiring(1), self._shape(self._wiring(1)).parameters
        while True:
            other = self._wiring(2 * best.cuts)
            parameters = self._shape(other).parameters
            if parameters >= least:
                return best
            best, least = other, parameters

    @cached_property
    def layout(self) -> Layout:
        """Features: input/output | positions | slots (D) | more. Values take the place of positions
        if that is enough, else they follow the slots. Scratch takes what else is free, two features
        of the output first: more of them would not be left exactly 0."""
        ask = self.ask
        places_at, places = self._position_at, ask.design.tokens + ask.design.bos
        slots_at = places_at + places
        end = slots_at + ask.axes
        values_at = places_at if ask.entries <= places else end
        end = max(end, values_at + ask.entries)
        free = [
            *range(min(places_at, 2)),
            *(at for at in range(places_at, slots_at) if not 0 <= at - values_at < ask.entries),
            *range(end, end + ask.axes),
        ]
        scratch = tuple(free[: ask.axes - 1])
        least = least_width(ask.design, ask.features, slots_at, self.wanted)
        width = max(end, 1 + max(scratch, default=0), least)
        return {"width": width, "slots_at": slots_at, "values_at": values_at, "scratch": scratch}

    def _wiring(self, cuts: int) -> Wiring:
        ask = self.ask
        return Wiring(
            axes=ask.axes,
            steps=self.steps,
            cuts=cuts,
            hidden=max(least_hidden(ask.axes, self.steps, cuts), ask.entries),
            spare=ask.design.tokens - 1,
            **self.layout,
        )

    @property
    def _middle(self) -> Middle:
        return self.wiring

    @property
    def _position_at(self) -> int:
        return max(self.ask.features, self.ask.out_features)

    @cached_property
    def gathering(self) -> Gathering:
        """What comes before the interpolator."""
        return self._gathering(self._middle)

    def _gathering(self, wiring: Middle) -> Gathering:
        ask = self.ask
        room = Room(
            tokens=ask.design.tokens,
            features=ask.features,
            width=wiring.width,
            hidden=wiring.hidden,
            position_at=self._position_at,
            slots_at=wiring.slots_at,
        )
        return gather(ask.design, room, self.wanted)

    @cached_property
    def shape(self) -> StackShape:
        return self._shape(self._middle)

    def _shape(self, wiring: Middle) -> StackShape:
        ask, front, rest = self.ask, self._gathering(wiring), wiring.layers + 1
        return StackShape(
            tokens=ask.design.tokens,
            in_features=ask.features,
            out_features=ask.out_features,
            width=wiring.width,
            heads=front.heads.count,
            head_dim=front.heads.size,
            hidden=wiring.hidden,
            layers=ask.layers(front.layers + rest),
            attention_layers=front.attention_layers,
            feedforward_layers=front.feedforward_layers + rest,
            **front.kinds,
        )

    def build(self, target: Target, progress: Progress) -> Construction:
        ask = self.ask
        nodes = lattice(self.steps + 1, ask.axes).double() / self.steps
        points = nodes.view(-1, ask.design.tokens, ask.features)
        values = target(points, progress, "evaluate f at the nodes")
        if self.wanted == "causal":
            values = causal(values, self.steps + 1, ask.axes)
        largest = float(values.abs().max())
        values = summable(values.flatten(1), ask.axes).view_as(values)
        return Construction(
            KuhnTable(self.steps, values),
            lambda: self._model(values, scale_of(values)),
            largest,
            stages=self._stages(),
        )

    def _stages(self) -> tuple[Stage, ...]:
        ask, wiring, front = self.ask, self._middle, self.gathering.layers
        past = self.wanted == "causal"
        reads, outputs = "sequence up to itself" if past else "whole sequence", ask.out_features
        result = Reading("T", 0, outputs)
        slots = Reading("slots", wiring.slots_at, ask.axes, past=ask.features * past)
        values = Reading(self.values_label, wiring.values_at, ask.entries, past=outputs * past)
        gathers = f"Every token gets its position, and the {reads} in its slots."
        stages = [
            Stage("gather", front, gathers, slots),
            Stage("interpolate", wiring.layers, f"{self.adds} {_CANDIDATES}", values),
            Stage("select", 1, "Every token keeps its own values.", result),
        ]
        return filled_up(stages, self.shape.layers, result)

    def _added(self, values: torch.Tensor) -> Layers:
        """The layers that add up values (nodes, entries) at the slots, to 1 at most."""
        return interpolate(values, self.wiring)

    def _behind(self, values: torch.Tensor, scale: float) -> list[Layers]:
        """The layers after the gathering, for values (nodes, tokens, out_features); |T| <=
        scale."""
        ask, wiring, tokens = self.ask, self._middle, self.ask.design.tokens
        outputs = {"out_features": ask.out_features, "values_at": wiring.values_at}
        middle = self._added(values.flatten(1) / scale)
        assert middle.feedforward is not None
        position_at = self._position_at + ask.design.bos
        set_apart(middle.feedforward, tokens=tokens, position_at=position_at, **outputs)
        return [middle, keep_own(tokens=tokens, width=wiring.width, scale=scale, **outputs)]

    def _model(self, values: torch.Tensor, scale: float) -> Stack:
        ask, front = self.ask, self.gathering
        runs = [*front.runs, *self._behind(values, scale)]
        return Stack.of(
            ask.design,
            runs,
            in_features=ask.features,
            out_features=ask.out_features,
            **front.vectors,
        )
