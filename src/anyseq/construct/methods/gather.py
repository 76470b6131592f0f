"""Method "gather": the whole sequence into every token, then piecewise-linear interpolation.

Sup norm. For every design that `anyseq.check` proves universal by Theorem 5.1. Attention is only in
`anyseq.construct.gathering`, after which every token knows its position and holds the sequence. The
rest are ReLU layers: the interpolator computes the outputs of all tokens from the gathered
sequence, the selector keeps the token's own. If a design gathers only what came before each token,
f must be causal; the values of token i are then those for zeros after it, so that it does not
matter what its other slots hold.

Error: that of the interpolation, see `anyseq.construct.smooth`, and the rounding of float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch

from anyseq.base import UNIT_ROUNDOFF, Progress, power_of_two_at_least
from anyseq.construct import needs
from anyseq.construct.ask import Ask, Construction
from anyseq.construct.error import ROUNDING, SUP, Term, combine
from anyseq.construct.fused import KuhnTable
from anyseq.construct.gadgets import (
    Wiring,
    interpolate,
    interpolator_layers,
    select,
    tournament,
)
from anyseq.construct.gathering import SLOT_ROUNDING, Gathering, Room, gather
from anyseq.construct.lattice import lattice, strides
from anyseq.construct.smooth import Bound
from anyseq.construct.stages import Reading, Stage
from anyseq.construct.target import Target
from anyseq.errors import CannotApproximate
from anyseq.nn import Layers, Stack, StackShape
from anyseq.positions import URPE, Sinusoidal

NAME = "gather"

_MOST_NODES = 2**28  # beyond the memory for their layers; a plan counts no further


def recipe(ask: Ask) -> GatherRecipe:
    """The coarsest grid that meets the tolerance."""
    needs.feed_forward(ask.design)
    _check_nodes(ask, 2**ask.least_log_steps)
    wanted = needs.gathering(ask.design)
    for log_steps in range(ask.least_log_steps, 53):
        _check_nodes(ask, 2**log_steps)
        found = GatherRecipe(ask, log_steps, wanted)
        if combine(found.terms, ask.norm, ask.p) <= ask.tol:
            return found
        rounding = found.terms[1].value
        if rounding > ask.tol:  # a finer grid rounds more
            break
    raise CannotApproximate(f"tol={ask.tol:g} is below the rounding of float64, {rounding:.2g}")


def _check_nodes(ask: Ask, steps: int) -> None:
    nodes = (steps + 1) ** ask.axes
    if nodes > _MOST_NODES:
        raise CannotApproximate(
            f"it needs δ <= 1/{steps}: over 2^{nodes.bit_length() - 1} nodes in "
            f"{ask.axes} dimensions"
        )


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

        For |f| <= 1: every pre-activation sums at most width+1 terms whose sizes add up to at most
        (D+scratch+2)m, so it rounds by at most `once`. A form of round r uses scratch of the rounds
        before on both sides: its error is at most 3^r times that. A node feature, at most 3m, is
        filled while what was there is taken off: hidden+2 terms whose sizes add up to at most 9m.
        Only nodes within one step of y along each axis, at most 3^D, can be on; each rounds its
        product and two sums (4u). The selector rounds F + B once and back; the outputs of the other
        n-1 tokens, F - B <= 0, may come out above 0 by what F is off, and are added. The look-up
        rounds D+1 weights, products and sums, by less than 3(D+2)u <= `once`.

        For other f it is in proportion; below 2^-960 underflow would count, so take that.
        """
        axes, tokens, plan = self.ask.axes, self.ask.design.tokens, tournament(self.ask.axes)
        wiring = self.wiring
        once = (wiring.width + 2) * (axes + plan.scratch + 2) * self.steps * UNIT_ROUNDOFF
        filled = (wiring.hidden + 2) * 9 * self.steps * UNIT_ROUNDOFF
        hat = 2 * 3.0 ** (len(plan.rounds) + 1) * once + filled + 4 * UNIT_ROUNDOFF
        unit = tokens * 3.0**axes * hat + 8 * UNIT_ROUNDOFF + self._moved()
        return max(self.ask.bound, 2.0**-960) * unit

    def _moved(self) -> float:
        """What it does to T, where |f| <= 1, that slots may be off: along each axis T is no steeper
        than from -1 to 1 in a step."""
        position = self.ask.design.position
        exact = not isinstance(position, URPE | Sinusoidal)
        return 0.0 if exact else 2 * self.ask.axes * self.steps * SLOT_ROUNDING

    @cached_property
    def wiring(self) -> Wiring:
        """The chunk that needs the fewest parameters, and where everything lies.

        Features: input/output | positions | slots (D) | values (n·d_out) | scratch | nodes.
        """
        longest = int(power_of_two_at_least(self._longest)).bit_length()
        return min(
            (self._wiring(2**log_chunk) for log_chunk in range(longest)), key=self._parameters
        )

    @property
    def _longest(self) -> int:
        """The most nodes on a diagonal."""
        return self.steps + 1

    def _middle(self, wiring: Wiring) -> int:
        """The layers that interpolate."""
        return interpolator_layers(wiring)

    def _interpolator(self, values: torch.Tensor) -> Layers:
        """What adds up the values of the nodes around x; values (nodes, entries)."""
        return interpolate(values, self.wiring)

    def _parameters(self, wiring: Wiring) -> int:
        """Of the interpolator: nearly all there are."""
        layers = self._middle(wiring)
        return layers * (2 * wiring.hidden * wiring.width + wiring.hidden + wiring.width)

    def _wiring(self, chunk: int) -> Wiring:
        ask, plan = self.ask, tournament(self.ask.axes)
        slots_at = self._position_at + ask.design.tokens + ask.design.bos
        values_at = slots_at + ask.axes
        scratch_at = values_at + ask.entries
        nodes_at = scratch_at + plan.scratch
        least = Room.least_width(ask.design, ask.features, slots_at)
        return Wiring(
            axes=ask.axes,
            steps=self.steps,
            chunk=chunk,
            hidden=max(4 * chunk, ask.entries, *map(len, plan.rounds)),
            width=max(nodes_at + chunk, least),
            slots_at=slots_at,
            values_at=values_at,
            scratch_at=scratch_at,
            nodes_at=nodes_at,
        )

    @property
    def _position_at(self) -> int:
        return max(self.ask.features, self.ask.out_features)

    @cached_property
    def gathering(self) -> Gathering:
        """What comes before the interpolator."""
        ask, wiring = self.ask, self.wiring
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
        ask, wiring, front = self.ask, self.wiring, self.gathering
        rest = self._middle(wiring) + 1
        return StackShape(
            tokens=ask.design.tokens,
            in_features=ask.features,
            out_features=ask.out_features,
            width=wiring.width,
            heads=front.heads.count,
            head_dim=front.heads.size,
            hidden=wiring.hidden,
            layers=max(front.layers + rest, ask.design.depth or 0),
            attention_layers=front.attention_layers,
            feedforward_layers=front.feedforward_layers + rest,
            **front.kinds,
        )

    def build(self, target: Target, progress: Progress) -> Construction:
        ask = self.ask
        nodes = lattice(self.steps + 1, ask.axes)
        points = (nodes.double() / self.steps).view(-1, ask.design.tokens, ask.features)
        values = target(points, progress, "evaluate f at the nodes")
        if self.wanted == "causal":
            stride = torch.tensor(strides(self.steps + 1, ask.axes))
            for token in range(ask.design.tokens):
                known = (token + 1) * ask.features
                values[:, token] = values[nodes[:, :known] @ stride[:known], token]
        largest = float(values.abs().max())
        return Construction(
            KuhnTable(self.steps, values),
            lambda: self._model(values, largest),
            largest,
            stages=self._stages(),
        )

    def _stages(self) -> tuple[Stage, ...]:
        ask, wiring, front = self.ask, self.wiring, self.gathering.layers
        middle = self._middle(wiring)
        idle = self.shape.layers - front - middle - 1
        causal = self.wanted == "causal"
        reads, outputs = "sequence up to itself" if causal else "whole sequence", ask.out_features
        result = Reading("T", 0, outputs)
        slots = Reading("slots", wiring.slots_at, ask.axes, past=ask.features * causal)
        values = Reading(
            "values of all tokens", wiring.values_at, ask.entries, past=outputs * causal
        )
        gathers = f"Every token comes to know its position, and to hold the {reads} in its slots."
        adds = "Every token adds up the values at the nodes around x, with their weights."
        stages = (
            Stage("gather", front, gathers, slots),
            Stage("interpolate", middle, adds, values),
            Stage("select", 1, "Every token keeps its own values.", result),
        )
        rest = Stage("idle", idle, "The design is deeper than the network needs to be.", result)
        return (*stages, rest) if idle else stages

    def _model(self, values: torch.Tensor, largest: float) -> Stack:
        ask, wiring, front = self.ask, self.wiring, self.gathering
        runs = [
            *front.runs,
            self._interpolator(values.flatten(1)),
            select(
                tokens=ask.design.tokens,
                out_features=ask.out_features,
                width=wiring.width,
                position_at=self._position_at + ask.design.bos,
                values_at=wiring.values_at,
                bound=power_of_two_at_least(largest) if largest else 1.0,
            ),
        ]
        runs.append(Layers(idle=self.shape.layers - sum(map(len, runs))))
        return Stack.of(
            ask.design,
            runs,
            in_features=ask.features,
            out_features=ask.out_features,
            **front.vectors,
        )
