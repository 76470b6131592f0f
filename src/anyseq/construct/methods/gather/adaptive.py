"""Method "gather" where constants of f are given per box: nodes only where the error requires them.

Like `anyseq.construct.methods.gather.gather`, but the interpolator adds hats of several levels, at
the nodes of an adaptive grid (`anyseq.construct.tables.leaves`, with the proof). It is taken where
it needs fewer parameters than the grid that is as fine everywhere. Every token must hold the whole
sequence: what a causal design leaves in the slots of later tokens may lie in a box of another size.

`recipe` is the whole method's: one wide layer (`anyseq.construct.methods.gather.wide`) is taken if
the design has a depth, and too small a one for either grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import ClassVar

import torch

from anyseq.base import UNIT_ROUNDOFF, Progress, power_of_two_at_least
from anyseq.construct.gadgets import Hats, HatWiring
from anyseq.construct.methods.gather import gather, wide
from anyseq.construct.methods.gather.gather import GatherRecipe
from anyseq.construct.methods.recipe import Construction, Recipe
from anyseq.construct.request import needs
from anyseq.construct.request.ask import Ask
from anyseq.construct.request.error import SUP, combine
from anyseq.construct.request.smooth import Bound
from anyseq.construct.request.target import Target
from anyseq.construct.tables.fused_adaptive import HatTable
from anyseq.construct.tables.leaves import Leaves, refine
from anyseq.errors import CannotApproximate
from anyseq.nn import Layers

_FINEST = 20  # whole numbers above 2^20 are not known from values any more when weights are read
_MOST_SUMS = 2**51  # a half of 2^52, what is left beside f


def recipe(ask: Ask) -> Recipe:
    """Interpolation, or one wide layer where the design is not deep enough for that."""
    depth = ask.design.depth
    try:
        deep = _interpolating(ask)
        if depth is None or deep.shape.layers == depth:
            return deep
        refusal = CannotApproximate(
            f"it needs {deep.shape.layers:,} layers; the design has depth={depth}"
        )
    except CannotApproximate as problem:
        if depth is None:
            raise
        refusal = problem
    try:
        return wide.recipe(ask)
    except CannotApproximate as problem:
        if str(problem) == str(refusal):
            raise
        raise CannotApproximate(f"{refusal}; and in one wide layer {problem}") from None


def _interpolating(ask: Ask) -> GatherRecipe:
    """The cheaper of the even grid and the adaptive one, if constants of f are given per box."""
    known = ask.smoothness
    if known.local_lipschitz is None and known.local_curvature is None:
        return gather.recipe(ask)
    refusal: CannotApproximate | None = None
    even: GatherRecipe | None = None
    try:
        even = gather.recipe(ask)
    except CannotApproximate as problem:
        refusal = problem
    needs.feed_forward(ask.design)
    if needs.gathering(ask) == "all":
        try:
            adaptive = _adaptive(ask)
        except CannotApproximate:
            adaptive = None
        found = [one for one in (even, adaptive) if one is not None]
        if found:
            return min(found, key=lambda one: (_too_deep(one), one.shape.parameters))
    if even is not None:
        return even
    assert refusal is not None
    raise refusal


def _too_deep(recipe: GatherRecipe) -> bool:
    """Whether it has more layers than the design."""
    return recipe.shape.layers > (recipe.ask.design.depth or math.inf)


def _adaptive(ask: Ask) -> AdaptiveRecipe:
    """The largest leaves that meet the tolerance, with room for rounding."""
    p, room = math.inf if ask.norm == SUP else ask.p, 0.0
    while room < ask.tol:
        target = (ask.tol * (1 - 2.0**-40) - room) / ask.spread
        leaves = refine(ask.smoothness, ask.design.tokens, ask.features, target, p)
        found = AdaptiveRecipe(ask, leaves.finest, notes=(_note(ask, leaves),), leaves=leaves)
        if leaves.finest > _FINEST:
            raise CannotApproximate(f"its smallest boxes have sides below 2^-{_FINEST}")
        if found.sums > _MOST_SUMS:
            raise CannotApproximate(f"{found.cells:,} nodes are too many to be summed exactly")
        if combine(found.terms, ask.norm, ask.p) <= ask.tol:
            return found
        room = max(2 * room, 2 * found.terms[1].value)  # smaller leaves round more
    raise CannotApproximate(f"tol={ask.tol:g} is below the proved bound for rounding in float64")


def _note(ask: Ask, leaves: Leaves) -> str:
    """The saving against the grid that is as fine everywhere (rounding aside)."""
    tokens, features = ask.design.tokens, ask.features
    p = math.inf if ask.norm == SUP else ask.p
    even = next(
        (2**level + 1) ** ask.axes
        for level in count()
        if ask.smoothness.interpolation(tokens, features, 2.0**-level, p).value * ask.spread
        <= ask.tol
    )
    return (
        f"adaptive: {len(leaves.keys):,} nodes of levels {leaves.coarsest} to {leaves.finest}, "
        f"uniform would need {even:,}"
    )


@dataclass(frozen=True)
class AdaptiveRecipe(GatherRecipe):
    """The network for one set of leaves; log_steps is the level of the smallest."""

    leaves: Leaves = field(kw_only=True)

    adds: ClassVar[str] = (
        "Every token interpolates f between nearby grid points, of every level: the values at the "
        "nodes around x, with their weights."
    )

    @property
    def cells(self) -> int:
        return len(self.leaves.keys)

    @property
    def _levels(self) -> int:
        return self.leaves.finest - self.leaves.coarsest + 1

    def _interpolated(self, p: float) -> Bound:
        leaves = self.leaves
        together = "the largest" if math.isinf(p) else "all together,"
        return Bound(
            leaves.error(p),
            f"{together} of {len(leaves):,} boxes with sides from 2^-{leaves.finest} to "
            f"2^-{leaves.coarsest}: Lδ(3/4 - 1/(2(D+1))) or D δ² M/8, with their own L, M, δ",
        )

    @cached_property
    def _nodes_of(self) -> list[tuple[int, int, float]]:
        """For every level: the reach of its hats, how many they are, and a bound for what
        multiplies one of them. That is f at the coarsest level, and then what f is off the
        interpolant of the level before, in the whole box of that level, all corners of which are
        nodes."""
        ask, leaves = self.ask, self.leaves
        found = []
        for level in range(leaves.coarsest, leaves.finest + 1):
            most = max(ask.bound, 2.0**-960)
            if level > leaves.coarsest:
                tokens, step = ask.design.tokens, 2.0 ** (1 - level)
                off = ask.smoothness.interpolation(tokens, ask.features, step, math.inf).value
                most = min(2 * most, off + most * 2.0**-48)  # f itself rounds
            count = int((leaves.node_levels == level).sum())
            found.append((2 ** (leaves.finest - level), count, most))
        return found

    def _added_up(self, moved: float = 0.0) -> tuple[float, float]:
        """Bounds for the weights that a value has, added up, and for these times their ReLUs; what
        multiplies hats is moved by so much.

        A hat has weights 1/r at 2^D corners, and where it is at an end of the fibres twice or four
        times at ReLUs without ν, in all at most 2^(D+1); ReLUs are m + r at most. What sets values
        apart is counted, too.
        """
        each = [(reach, count * (most + moved)) for reach, count, most in self._nodes_of]
        share = 2.0 ** (self.ask.axes + 1)
        weight = share * sum(total / reach for reach, total in each)
        summed = share * sum(total * (self.steps / reach + 1) for reach, total in each)
        return weight, summed + 16 * max(self.ask.bound, 2.0**-960)

    @property
    def sums(self) -> int:
        """2^D N (m+1) R: how many units in the last place of a sum f is moved by, at most."""
        return int(2**self.ask.axes * self.cells * (self.steps + 1) * 2 ** (self._levels - 1))

    @property
    def unit(self) -> float:
        """What multiplies hats is made a multiple of it, such that all that is added up at a node
        of the finest grid is exact: over its reach, which divides the largest one, R, it is one of
        unit/R, and sums stay below 2^53 of these. Half of that is for f; that hats are moved by
        unit/2 adds `sums` of them at most."""
        return power_of_two_at_least(self._added_up()[1]) * 2.0 ** (self._levels - 1 - 52)

    def _rounding(self) -> float:
        """A bound for |computed T - T|, for the blocks and for the look-up; inputs are float64.

        All pre-activations sum at most width+1 terms whose sizes add up to at most 2(m+R), R the
        largest reach. e_i is filled while what was there leaves, hidden+2 terms of sizes up to
        2(m+R+1) together: by this, two pre-activations and the one that leaves ν is off by at
        most `filled` more with each axis (it is no steeper than 1 in what it was before). So ReLUs
        are off by D times that, and values by this times their weights. A layer adds hidden terms
        to a value, and no sum is larger than all sizes together.

        Hats are moved by unit/2, and T at the nodes, of whose values it is a mean, by no more: the
        hats of later levels make up for it. The selector rounds F + 1 once and back; the outputs of
        the other n-1 tokens, F - 1 <= 0, may come out above 0 by what F is off, and are added. The
        look-up sums K(D+1) products of total size 2K, with weights right to 3u.
        """
        axes, wiring, levels = self.ask.axes, self._middle, self._levels
        size = 2 * (self.steps + 2.0 ** (levels - 1) + 1)
        filled = (3 * (wiring.width + 2) + wiring.hidden + 2) * size
        weight, summed = self._added_up(moved=self.unit / 2)
        sums = weight * axes * filled
        sums += (wiring.hidden + 2 + wiring.layers) * summed
        looked = 2 * levels * (levels * (axes + 1) + 6) + 28
        bound = max(self.ask.bound, 2.0**-960)
        units = self.ask.design.tokens * sums + looked * bound
        return units * UNIT_ROUNDOFF + self.unit / 2 + bound * self._moved()

    def _moved(self) -> float:
        """As for the even grid; but t has a weight of each level, at most 8: that of two nodes at
        each end of the fibres, of at most 2."""
        return 2 * (self.ask.axes + 4 * self._levels) * self.steps * self._slots_off

    @cached_property
    def _hats(self) -> Hats:
        leaves = self.leaves
        return Hats(leaves.nodes, 2 ** (leaves.finest - leaves.node_levels), self.steps)

    @cached_property
    def _middle(self) -> HatWiring:
        """As many ReLUs a layer as make the fewest parameters."""
        ask, hats = self.ask, self._hats
        least = max(ask.axes + 1, ask.entries)
        most = max(least, hats.longest + ask.axes + ask.design.tokens)
        return min(
            map(self._hat_wiring, range(least, most + 1)),
            key=lambda wiring: self._shape(wiring).parameters,
        )

    def _hat_wiring(self, hidden: int) -> HatWiring:
        spare, layout = self.ask.design.tokens - 1, self.layout
        leave = sum(feature < self._position_at for feature in layout["scratch"])
        layers = self._hats.layers(hidden, spare, leave)
        return HatWiring(layers=layers, hidden=hidden, leave=leave, spare=spare, **layout)

    def _added(self, values: torch.Tensor) -> Layers:
        return self._hats.add(values, self._middle)

    def build(self, target: Target, progress: Progress) -> Construction:
        ask, leaves = self.ask, self.leaves
        points = (leaves.nodes.double() / self.steps).view(-1, ask.design.tokens, ask.features)
        values = target(points, progress, "evaluate f at the nodes")
        largest = float(values.abs().max())
        table = HatTable.through(leaves, values, self.unit)
        return Construction(
            table,
            lambda: self._model(table.values, table.scale),
            largest,
            stages=self._stages(),
        )
