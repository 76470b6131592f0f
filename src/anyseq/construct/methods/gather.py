"""Method "gather": the whole sequence into every token, then piecewise-linear interpolation.

Sup norm. One attention layer, the router; the rest are ReLU layers: the interpolator computes the
outputs of all tokens from the gathered sequence, the selector keeps the token's own.

Error. Let y_(1) >= ... >= y_(D) be the sorted fractions of x in its cube, y_(0) = 1, y_(D+1) = 0.
Then x = Σ_k w_k v_k over the D+1 nodes of its Kuhn simplex, with w_k = y_(k) - y_(k+1) and
max|x - v_k| = δ max(1 - y_(k), y_(k+1)). So

    |f(x) - Σ_k w_k f(v_k)| <= L δ Σ_k w_k max(1 - y_(k), y_(k+1)).

The intervals [y_(k+1), y_(k)] cut [0, 1] into D+1 pieces. The integral of max(1-t, t) over [0, 1]
is 3/4, and a piece [a, b] has less in the sum than in the integral. With l = b-a, the loss is
l²/2 if it does not contain 1/2; if it does, with 1/2-a = s and b-1/2 = t, it is (s²+t²)/2 +
(s+t)min(s,t) >= l²/2. D+1 pieces of total length 1 lose at least 1/(2(D+1)) together. Hence

    |f - T| <= L δ (3/4 - 1/(2(D+1)))   (attained for odd D, e.g. Lδ/2 for D = 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from anyseq.base import UNIT_ROUNDOFF, Progress, power_of_two_at_least
from anyseq.construct import needs
from anyseq.construct.ask import Ask, Construction
from anyseq.construct.error import SUP, Term, combine
from anyseq.construct.fused import KuhnTable
from anyseq.construct.gadgets import (
    Wiring,
    interpolate,
    interpolator_layers,
    route,
    select,
    tournament,
)
from anyseq.construct.lattice import lattice
from anyseq.construct.stages import Reading, Stage
from anyseq.construct.target import Target
from anyseq.errors import CannotApproximate
from anyseq.nn import Stack, StackShape
from anyseq.positions import Absolute

NAME = "gather"

_MOST_NODES = 2**28  # beyond the memory for their layers; a plan counts no further


def recipe(ask: Ask) -> GatherRecipe:
    """The coarsest grid that meets the tolerance."""
    needs.dense_softmax(ask.design)
    needs.plain_blocks(ask.design)
    if not isinstance(ask.design.position, Absolute):
        raise CannotApproximate("it needs absolute positions, to know which token is which")
    for log_steps in range(ask.least_log_steps, 53):
        found = GatherRecipe(ask, log_steps)
        if found.cells > _MOST_NODES:
            raise CannotApproximate(
                f"it needs δ <= 1/{found.steps}: over 2^{found.cells.bit_length() - 1} nodes in "
                f"{ask.axes} dimensions"
            )
        if combine(found.terms, ask.norm, ask.p) <= ask.tol:
            return found
        rounding = found.terms[1].value
        if rounding > ask.tol:  # a finer grid rounds more
            break
    raise CannotApproximate(f"tol={ask.tol:g} is below the rounding of float64, {rounding:.2g}")


@dataclass(frozen=True)
class GatherRecipe:
    """The network for one grid step δ = 2^-log_steps."""

    ask: Ask
    log_steps: int
    method: str = NAME
    id_bits: None = None
    exceptional: float = 0.0

    @property
    def steps(self) -> int:
        """m = 1/δ."""
        return int(2**self.log_steps)

    @property
    def cells(self) -> int:
        return int((self.steps + 1) ** self.ask.axes)

    @property
    def _interpolation(self) -> float:
        share = 0.75 - 1 / (2 * (self.ask.axes + 1))
        return self.ask.lipschitz * share / self.steps

    @property
    def pointwise(self) -> float:
        return self._interpolation + self.ask.bound * self._rounding()

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        ask, axes = self.ask, self.ask.axes
        # from the largest entry to the norm asked for: all entries may err as much
        factor = 1.0 if ask.norm == SUP else ask.entries ** (1 / ask.p)
        return (
            Term(
                "interpolation",
                factor * self._interpolation,
                "cells",
                f"Lδ(3/4 - 1/(2(D+1))), L = {ask.lipschitz:g}, δ = 2^-{self.log_steps}, D = {axes}",
            ),
            Term(
                "rounding",
                factor * ask.bound * self._rounding(),
                "cells",
                "float64, worst case over any order of summation",
            ),
        )

    def _rounding(self) -> float:
        """A bound for |computed T - T| where |f| <= 1.

        Every pre-activation sums at most width+1 terms whose sizes add up to at most
        (D+scratch+2)m, so it rounds by at most `once`. A form of round r uses scratch of the rounds
        before on both sides: its error is at most 3^r times that. Only nodes within one step of y
        along each axis, at most 3^D, can be on; the selector rounds F + B once and back.
        """
        axes, plan = self.ask.axes, tournament(self.ask.axes)
        once = (self.shape.width + 2) * (axes + plan.scratch + 2) * self.steps * UNIT_ROUNDOFF
        hat = 2 * 3.0 ** (len(plan.rounds) + 1) * once + 4 * UNIT_ROUNDOFF
        return 3.0**axes * hat + 8 * UNIT_ROUNDOFF

    @cached_property
    def wiring(self) -> Wiring:
        """The chunk that needs the fewest parameters, and where everything lies.

        Features: input/output | positions (n) | slots (D) | values (n·d_out) | scratch | nodes.
        """
        longest = int(power_of_two_at_least(self.steps + 1)).bit_length()
        return min(
            (self._wiring(2**log_chunk) for log_chunk in range(longest)),
            key=lambda wiring: self._shape(wiring).parameters,
        )

    def _wiring(self, chunk: int) -> Wiring:
        ask, scratch = self.ask, tournament(self.ask.axes).scratch
        slots_at = max(ask.features, ask.out_features) + ask.design.tokens
        values_at = slots_at + ask.axes
        scratch_at = values_at + ask.entries
        nodes_at = scratch_at + scratch
        return Wiring(
            axes=ask.axes,
            steps=self.steps,
            chunk=chunk,
            hidden=max(2 * chunk + scratch, 2 * ask.features, ask.entries),
            width=nodes_at + chunk,
            slots_at=slots_at,
            values_at=values_at,
            scratch_at=scratch_at,
            nodes_at=nodes_at,
        )

    @cached_property
    def shape(self) -> StackShape:
        return self._shape(self.wiring)

    def _shape(self, wiring: Wiring) -> StackShape:
        ask = self.ask
        layers = 2 + interpolator_layers(ask.axes, self.steps, wiring.chunk)
        return StackShape(
            tokens=ask.design.tokens,
            in_features=ask.features,
            out_features=ask.out_features,
            width=wiring.width,
            heads=ask.design.tokens,
            head_dim=ask.features,
            hidden=wiring.hidden,
            layers=layers,
            attention_layers=1,
            feedforward_layers=layers,
            positions=True,
        )

    def build(self, target: Target, progress: Progress) -> Construction:
        ask = self.ask
        nodes = lattice(self.steps + 1, ask.axes).double() / self.steps
        nodes = nodes.view(-1, ask.design.tokens, ask.features)
        values = target(nodes, progress, "evaluate f at the nodes")
        largest = float(values.abs().max())
        return Construction(
            KuhnTable(self.steps, values),
            lambda: self._model(values),
            largest,
            stages=self._stages(),
        )

    def _stages(self) -> tuple[Stage, ...]:
        ask, wiring = self.ask, self.wiring
        return (
            Stage(
                "route",
                1,
                "Every token copies the whole sequence into slots of its own.",
                Reading("slots", wiring.slots_at, ask.axes),
            ),
            Stage(
                "interpolate",
                self.shape.layers - 2,
                "Every token adds up the values at the nodes around x, with their weights.",
                Reading("values of all tokens", wiring.values_at, ask.entries),
            ),
            Stage(
                "select", 1, "Every token keeps its own values.", Reading("T", 0, ask.out_features)
            ),
        )

    def _model(self, values: torch.Tensor) -> Stack:
        ask, wiring = self.ask, self.wiring
        tokens = ask.design.tokens
        position_at = wiring.slots_at - tokens
        position = torch.zeros(tokens, wiring.width, dtype=torch.float64)
        position[:, position_at : wiring.slots_at] = torch.eye(tokens, dtype=torch.float64)
        largest = float(values.abs().max())
        runs = [
            route(
                tokens=tokens,
                features=ask.features,
                width=wiring.width,
                position_at=position_at,
                slots_at=wiring.slots_at,
            ),
            interpolate(values.flatten(1), wiring),
            select(
                tokens=tokens,
                out_features=ask.out_features,
                width=wiring.width,
                position_at=position_at,
                values_at=wiring.values_at,
                bound=power_of_two_at_least(largest) if largest else 1.0,
            ),
        ]
        return Stack.of(
            ask.design,
            runs,
            in_features=ask.features,
            out_features=ask.out_features,
            position=position,
        )
