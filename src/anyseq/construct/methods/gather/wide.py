"""Method "gather" for designs of a small, fixed depth: one wide layer after the last attention.

For every design of a depth for which `anyseq.check` proves Theorem 1: as few layers as the theorem
needs gather the sequence (`gather_directly`), and the feed-forward half of the last of them does
everything else: ridges (`anyseq.construct.tables.ridges`, with the proof), each token its own. If a
design gathers only what came before each token, f must be causal, and token i has the ridges of
tokens up to itself.

Error: that of the kernel, that of the ridges, and the rounding of float64; the same bound in L^p.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from anyseq.base import UNIT_ROUNDOFF, Progress
from anyseq.construct.counting.lattice import causal
from anyseq.construct.gathering import Direct, gather_directly
from anyseq.construct.methods.gather.gather import NAME
from anyseq.construct.methods.gather.wide_layer import reach, shut, units, wide_layer
from anyseq.construct.methods.recipe import Construction
from anyseq.construct.network.stages import Reading, Stage, filled_up
from anyseq.construct.request import needs
from anyseq.construct.request.ask import Ask
from anyseq.construct.request.error import ROUNDING, Term, combine
from anyseq.construct.request.target import Target
from anyseq.construct.tables.fused_ridges import RidgeTable, knot_unit
from anyseq.construct.tables.ridges import Ridges, distance, kernel_error
from anyseq.errors import CannotApproximate
from anyseq.nn import Layers, Stack, StackShape

_LOG2_MOST_DIRECTIONS = 21  # of any length, with signs: beyond the memory for their knots
_MOST_LOG_STEPS = 20
_FURTHER = (1.1, 1.2, 1.4)  # times the least degree: fewer knots may make up for it


def recipe(ask: Ask) -> WideRecipe:
    """The degree and the knots with the fewest parameters that meet the tolerance."""
    needs.feed_forward(ask.design)
    least = _least_degree(ask)
    _few_enough(ask, least)
    wanted = needs.gathering(ask)
    first_free = max(ask.features, ask.out_features)
    front = gather_directly(ask.design, ask.features, first_free, wanted)
    layers, depth = front.gathering.layers, ask.design.depth
    if depth is not None and layers > depth:
        raise CannotApproximate(f"its attention needs {layers} layers; the design has {depth}")
    # more knots than the tolerance asks for: an estimate of f was too small, for the degree, too
    least *= 2 ** max(0, ask.least_log_steps - (_log_knots(ask, least) or _MOST_LOG_STEPS))
    found, tried = [], False
    for degree in sorted({least + k for k in range(4)} | {math.ceil(least * k) for k in _FURTHER}):
        if _log2_directions(ask, degree) > _LOG2_MOST_DIRECTIONS:
            break
        tried, made = True, _fewest_knots(ask, degree, wanted, front)
        if made is not None:
            found.append(made)
    if tried and not found:
        raise CannotApproximate(
            f"with cosines of degree {least} and more, the proved bound for rounding leaves "
            f"nothing of tol={ask.tol:g}"
        )
    _few_enough(ask, least)
    return min(found, key=lambda made: made.shape.parameters)


def _log2_directions(ask: Ask, degree: int) -> float:
    """The number of all directions, of any length; counted without allocating them."""
    return ask.axes * math.log2(2 * degree + 1)


def _few_enough(ask: Ask, least: int) -> None:
    if (log2 := _log2_directions(ask, least)) > _LOG2_MOST_DIRECTIONS:
        raise CannotApproximate(
            f"it needs cosines of degree {least} or more in {ask.axes} dimensions, over "
            f"2^{math.floor(log2):,} directions"
        )


def _least_degree(ask: Ask) -> int:
    """The least degree whose kernel alone is within the tolerance; its error falls with it."""
    tokens, features, known = ask.design.tokens, ask.features, ask.smoothness

    def fits(degree: int) -> bool:
        return kernel_error(known, tokens, features, degree).value * ask.spread < ask.tol

    high = 1
    while not fits(high):
        high *= 2
        if _log2_directions(ask, high) > ask.axes + 1 + _LOG2_MOST_DIRECTIONS:
            return high
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _fewest_knots(ask: Ask, degree: int, wanted: str, front: Direct) -> WideRecipe | None:
    """The fewest knots that leave something for rounding, which is more for more of them."""
    log_knots = _log_knots(ask, degree)
    if log_knots is None or max(log_knots, ask.least_log_steps) > _MOST_LOG_STEPS:
        return None
    made = WideRecipe(ask, max(log_knots, ask.least_log_steps), degree, wanted, front)
    return made if combine(made.terms, ask.norm, ask.p) <= ask.tol else None


def _log_knots(ask: Ask, degree: int) -> int | None:
    """log2 of the fewest knots to a half-wave that meet the tolerance, rounding aside; None if the
    kernel leaves nothing."""
    kernel = kernel_error(ask.smoothness, ask.design.tokens, ask.features, degree).value
    left = (ask.tol / ask.spread - kernel) * (1 - 2.0**-10)
    if left <= 0:
        return None
    amplitude = Ridges(ask.axes, degree, 1).amplitude(ask.smoothness, ask.bound)
    steps = math.pi * math.sqrt(amplitude / (8 * left))
    return max(1, math.ceil(math.log2(max(steps, 1.0))))


@dataclass(frozen=True)
class WideRecipe:
    """The network for cosines up to degree N, with 2^log_steps knots to a half-wave."""

    ask: Ask
    log_steps: int
    degree: int
    wanted: str
    front: Direct
    method: str = NAME
    id_bits: None = None
    exceptional: float = 0.0

    @property
    def notes(self) -> tuple[str, ...]:
        count = len(self.ridges.directions)
        return (
            f"one wide layer, without δ: {count:,} ridges of cosines up to degree {self.degree}, "
            f"{self.ridges.steps:,} knots to a half-wave, {self.shape.hidden:,} ReLUs in all",
        )

    @property
    def cells(self) -> int:
        return int((self.degree + 1) ** self.ask.axes)

    @property
    def distances(self) -> tuple[float, ...]:
        """Where a modulus of continuity is used."""
        return min(distance(self.degree) * math.sqrt(self.ask.axes), 1.0), 1 / (self.degree + 1)

    @cached_property
    def ridges(self) -> Ridges:
        return Ridges(self.ask.axes, self.degree, int(2**self.log_steps))

    @cached_property
    def _amplitude(self) -> float:
        return self.ridges.amplitude(self.ask.smoothness, self.ask.bound)

    @property
    def pointwise(self) -> float:
        return sum(term.value for term in self.terms) / self.ask.spread

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        ask, spread = self.ask, self.ask.spread
        kernel = kernel_error(ask.smoothness, ask.design.tokens, ask.features, self.degree)
        ridges = f"(π/q)²/8 Σ|a_k|, Σ|a_k| <= {self._amplitude:.3g}, q = 2^{self.log_steps}"
        rounding = "float64, worst case over any order of summation"
        return (
            Term("kernel", spread * kernel.value, "cube", kernel.why),
            Term("ridges", spread * self.ridges.error * self._amplitude, "cube", ridges),
            Term(ROUNDING, spread * self._rounding(), "cube", rounding),
        )

    def _rounding(self) -> float:
        """A bound for |computed T - T|, for the blocks and for the look-up; inputs are float64.

        Let A bound Σ|a_k|, all of them, and V the sum of |a_k| (Σ k_i)². The sums for the
        amplitudes, over N+1 nodes along each axis, of sizes up to 2^D B, are off by `sums`, those
        of cosines at a knot by (N+24)A; knots are moved to multiples of `unit`, after which the
        weights at kinks are exact. On a ridge slopes change by at most the second derivative: the
        weights of harmonic g of κ add up to (πg)²|κ| of its amplitude, |κ| = Σ|κ_i|, and the ReLUs
        times their weights to (πg|κ|)² of it; slopes and constants of the affine part to 2πg|κ|+2:
        `weight` in all, with x itself. A pre-activation is a sum of width+1 terms of sizes up to
        (reach+2)DN together; and it is off by what the reader is off, in x and in the form that
        shuts others out. A token's own ReLUs are summed in any order, all others are exactly 0. The
        look-up is no steeper than `weight`, and sums as many products.
        """
        ask, degree, axes = self.ask, self.degree, self.ask.axes
        bound, far = max(ask.bound, 2.0**-960), self.ask.axes * self.degree
        total = self._amplitude + bound
        bends = self.ridges.amplitude(ask.smoothness, bound, power=2)
        unit, count = knot_unit(total, degree), len(self.ridges.first)
        sums = (2 * (degree + 1)) ** axes * axes * (degree + 8) * bound + (degree + 24) * total
        knots = float(self.ridges.pieces.sum())
        weight = (math.pi**2 + 2 * math.pi) * bends + 2 * total + 1
        weight += 4 * knots * self.ridges.steps * far * unit
        most = max(map(reach, self.front.readers))
        shuts = max(shut(reader, axes, degree) for reader in self.front.readers)
        once = (self.shape.width + 4) * (most + 2) * (far + 1) * UNIT_ROUNDOFF
        once += (far + shuts) * self.front.off
        added = (max(self._units) + count + 8) * UNIT_ROUNDOFF
        return float(weight * (once + added) + sums * UNIT_ROUNDOFF + (count + 1) * unit)

    @cached_property
    def _units(self) -> list[int]:
        """The ReLUs of each token."""
        directions, pieces = self.ridges.directions, self.ridges.pieces
        return [units(reader, directions, pieces) for reader in self.front.readers]

    @cached_property
    def shape(self) -> StackShape:
        ask, front = self.ask, self.front.gathering
        return StackShape(
            tokens=ask.design.tokens,
            in_features=ask.features,
            out_features=ask.out_features,
            width=len(self.front.readers[0].others),
            heads=front.heads.count,
            head_dim=front.heads.size,
            hidden=max(sum(self._units), self.front.hidden),
            layers=ask.layers(front.layers),
            attention_layers=front.attention_layers,
            feedforward_layers=front.feedforward_layers + 1,
            **front.kinds,
        )

    def build(self, target: Target, progress: Progress) -> Construction:
        ask = self.ask
        points = self.ridges.nodes().view(-1, ask.design.tokens, ask.features)
        values = target(points, progress, "evaluate f at the nodes")
        past = self.wanted == "causal"
        if past:
            values = causal(values, self.degree + 1, ask.axes)
        unit = knot_unit(self._amplitude + max(ask.bound, 2.0**-960), self.degree)
        table = RidgeTable.of(self.ridges, values, unit, ask.features * past)
        return Construction(
            table,
            lambda: self._model(table),
            float(values.abs().max()),
            stages=self._stages(),
        )

    def _stages(self) -> tuple[Stage, ...]:
        front, layers = self.front.gathering.layers, self.shape.layers
        result = Reading("T", 0, self.ask.out_features)
        everything = Reading("features", 0, self.shape.width)
        before = "Positions are found, and slots filled, up to the last step."
        last = "The last step of the gathering; then every token adds up its own ridges."
        stages = [Stage("gather", front - 1, before, everything)] if front > 1 else []
        stages.append(Stage("ridges", 1, last, result))
        return filled_up(stages, layers, result)

    def _model(self, table: RidgeTable) -> Stack:
        ask, front, shape = self.ask, self.front.gathering, self.shape
        *before, last = front.runs
        half = wide_layer(
            table,
            self.front.readers,
            features=ask.features,
            degree=self.degree,
            hidden=shape.hidden,
            width=shape.width,
        )
        runs = [*before, Layers(attention=last.attention, feedforward=half)]
        return Stack.of(
            ask.design,
            runs,
            in_features=ask.features,
            out_features=ask.out_features,
            **front.vectors,
        )
