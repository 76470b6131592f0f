"""Method "partition": one softmax head over a memory is a partition of unity.

Sup norm, absolute positions. The router gathers the sequence into every token; then the token
attends to N^D memory tokens, one for the centre g of every cell of step δ = 1/N, with query (x, 1),
key (2βg, -β|g|²) and value f(g). Scores are β|x|² - β|x-g|², so the weights are those of
softmax_g(-β|x-g|²), and the selector keeps the token's own output. There is no look-up by ReLUs.
The memory is outside the design (`anyseq.construct.network.memory`), so "auto" never chooses it.

Error. Let κ = βδ², and let G be a random centre with these weights, so that T(x) = E f(G) and
|f - T| <= L E max_a |x_a - G_a|. The weights are products, so the axes are independent. Along an
axis let the nearest centre be tδ away, 0 <= t <= 1/2; all others are (k+t)δ, k >= 1, or (k-t)δ,
k >= 1, away. What |x_a - G_a|/δ has above 1/2 comes, in the mean,

- from the one at 1-t: (1/2-t)/(1 + e^(κ(1-2t))) <= max_z z/(1+e^z) / (2κ) < 0.13924/κ;
- from those at k+t: at most Σ k e^(-κ(k²+2kt)) <= Σ k e^(-κk²), and from those at k-t, k >= 2: at
  most Σ k e^(-κk(k-1)); together less than 3e^-κ for κ >= 2.

Summed over the axes, since a maximum is at most 1/2 plus everything above 1/2,

    |f - T| <= L δ (1/2 + D (0.13924/κ + 3e^-κ)).

The sharper the better: κ is the smallest power of two, 64 or more, that the tolerance allows.

Rounding. Keys are exact. A score is a sum of D+1 products of sizes that add up to at most 3βD, so
it rounds by at most ε = 3(D+2)βD u, and weights are off by factors within e^(±2ε) and the 16u of
exp and of the division. That moves a mean of f(G) - f(nearest centre), at most 2Lδ in size. The
sums over N^D terms and the selector round by at most (2N^D + 64)u of the largest |f|.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from anyseq.base import UNIT_ROUNDOFF, Progress, power_of_two_at_least
from anyseq.construct.counting.lattice import lattice
from anyseq.construct.gadgets import route, select
from anyseq.construct.methods.recipe import Construction
from anyseq.construct.network.memory import MemoryShape, MemoryStack
from anyseq.construct.request import needs
from anyseq.construct.request.ask import Ask
from anyseq.construct.request.error import Term, combine
from anyseq.construct.request.target import Target
from anyseq.construct.tables.fused_soft import SoftTable
from anyseq.errors import CannotApproximate
from anyseq.nn import Stack

NAME = "partition"

_LOG2_MOST_CENTRES = 20  # sums over more would round too much
_MOST_AXES = 8  # the look-up sums over 2^D centres
_LEAST_SHARPNESS = 64.0
_MOST_ROUNDING = 5e-10  # of T, where |f| <= 1: blocks and look-up must agree to 1e-9
_MOST_SCORE_ROUNDING = 2.0**-10


def recipe(ask: Ask) -> PartitionRecipe:
    """The coarsest grid that meets the tolerance, with the least sharpness."""
    needs.dense_softmax(ask.design)
    needs.plain_blocks(ask.design)
    needs.absolute_positions(ask.design)
    needs.lipschitz(ask)
    if ask.axes > _MOST_AXES:
        raise CannotApproximate(
            f"it is built for at most {_MOST_AXES} dimensions, tokens x features; these are "
            f"{ask.axes}"
        )
    log_steps = max(1, ask.least_log_steps)
    while True:
        found = PartitionRecipe(ask, log_steps, _LEAST_SHARPNESS)
        if log_steps * ask.axes > _LOG2_MOST_CENTRES:
            raise CannotApproximate(
                f"it needs δ <= 2^-{log_steps}: 2^{log_steps * ask.axes} memory tokens"
            )
        if found.rounding > _most_rounding(ask):
            raise CannotApproximate(
                f"it needs δ <= 2^-{log_steps}, where its outputs round by {found.rounding:.2g} in "
                "float64"
            )
        while found.rounding <= _most_rounding(ask) and found.score_rounding < _MOST_SCORE_ROUNDING:
            if combine(found.terms, ask.norm, ask.p) <= ask.tol:
                return found
            found = replace(found, sharpness=2 * found.sharpness)
        log_steps += 1


def _most_rounding(ask: Ask) -> float:
    return _MOST_ROUNDING * max(1.0, ask.bound)


@dataclass(frozen=True)
class PartitionRecipe:
    """The network for one grid step δ = 2^-log_steps and one sharpness κ."""

    ask: Ask
    log_steps: int
    sharpness: float
    method: str = NAME
    notes: tuple[str, ...] = ()
    id_bits: None = None
    exceptional: float = 0.0

    @property
    def steps(self) -> int:
        """N = 1/δ."""
        return int(2**self.log_steps)

    @property
    def cells(self) -> int:
        return int(self.steps**self.ask.axes)

    @property
    def inverse_width(self) -> float:
        """β = κ/δ²."""
        return self.sharpness * self.steps**2

    @property
    def score_rounding(self) -> float:
        """ε."""
        axes = self.ask.axes
        return 3 * (axes + 2) * axes * self.inverse_width * UNIT_ROUNDOFF

    @property
    def _blending(self) -> float:
        excess = 0.13924 / self.sharpness + 3 * math.exp(-self.sharpness)
        return self.ask.lipschitz / self.steps * (0.5 + self.ask.axes * excess)

    @property
    def rounding(self) -> float:
        """A bound for |computed T - T|, for the blocks and for the look-up, which rounds less.

        Below 2^-960 underflow would count, so take that for the largest |f|.
        """
        weights = math.expm1(2 * self.score_rounding + 16 * UNIT_ROUNDOFF)
        sums = (2 * self.cells + 64) * UNIT_ROUNDOFF * max(self.ask.bound, 2.0**-960)
        return weights * 2 * self.ask.lipschitz / self.steps + sums

    @property
    def pointwise(self) -> float:
        return self._blending + self.rounding

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        ask = self.ask
        factor = ask.spread  # all entries may err as much as the largest
        return (
            Term(
                "blending",
                factor * self._blending,
                "cells",
                f"Lδ(1/2 + D(0.14/κ + 3e^-κ)), L = {ask.lipschitz:g}, δ = 2^-{self.log_steps}, "
                f"D = {ask.axes}, κ = βδ² = {self.sharpness:g}",
            ),
            Term(
                "rounding",
                factor * self.rounding,
                "cells",
                "float64, in the scores and in the sums over the memory",
            ),
        )

    @cached_property
    def shape(self) -> MemoryShape:
        """Features: input/output | positions (n) | slots (D) | values (n·d_out)."""
        ask = self.ask
        slots_at = max(ask.features, ask.out_features) + ask.design.tokens
        return MemoryShape(
            tokens=ask.design.tokens,
            in_features=ask.features,
            out_features=ask.out_features,
            width=slots_at + ask.axes + ask.entries,
            heads=ask.design.tokens,
            head_dim=ask.features,
            hidden=max(2 * ask.features, ask.entries),
            layers=ask.layers(2),
            attention_layers=2,
            feedforward_layers=2,
            positions=True,
            memory=self.cells,
            slots_at=slots_at,
        )

    def build(self, target: Target, progress: Progress) -> Construction:
        ask = self.ask
        centres = (lattice(self.steps, ask.axes).double() + 0.5) / self.steps
        shaped = centres.view(-1, ask.design.tokens, ask.features)
        values = target(shaped, progress, "evaluate f at the cells' centres")
        return Construction(
            SoftTable(self.steps, self.sharpness, values),
            lambda: self._model(centres, values),
            float(values.abs().max()),
            {"memory": f"{self.cells:,} tokens, beyond the design"},
        )

    def _model(self, centres: torch.Tensor, values: torch.Tensor) -> MemoryStack:
        ask, shape = self.ask, self.shape
        tokens, position_at = ask.design.tokens, shape.slots_at - ask.design.tokens
        position = torch.zeros(tokens, shape.width, dtype=torch.float64)
        position[:, position_at : shape.slots_at] = torch.eye(tokens, dtype=torch.float64)
        largest = float(values.abs().max())
        runs = [
            route(
                tokens=tokens,
                features=ask.features,
                width=shape.width,
                position_at=position_at,
                slots_at=shape.slots_at,
            ),
            select(
                tokens=tokens,
                out_features=ask.out_features,
                width=shape.width,
                position_at=position_at,
                values_at=shape.values_at,
                # twice, because a mean of values may round above the largest
                bound=power_of_two_at_least(2 * largest) if largest else 1.0,
            ),
        ]
        plain = Stack.of(
            ask.design,
            runs,
            in_features=ask.features,
            out_features=ask.out_features,
            position=position,
        )
        halves = plain.get_buffer("halves").clone()
        halves[1, 0] = 1  # the selector's block looks at the memory first
        squares = (centres**2).sum(1, keepdim=True)
        memory = {
            "halves": halves,
            "memory_key": self.inverse_width * torch.cat([2 * centres, -squares], dim=1),
            "memory_value": values.flatten(1).clone(),  # the look-up keeps its own
        }
        tensors = {name: tensor.detach() for name, tensor in plain.state_dict().items()}
        return MemoryStack(ask.design, shape, tensors | memory)
