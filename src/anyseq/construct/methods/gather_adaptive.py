"""Method "gather" where f is told box by box: nodes only where the error asks for them.

As `anyseq.construct.methods.gather`, but the interpolator adds hats of several levels, at the nodes
of an adaptive grid (`anyseq.construct.leaves`, with the proof). It is taken where it needs fewer
parameters than the grid that is as fine everywhere. Every token must hold the whole sequence: what
a causal design leaves in the slots of later tokens may lie in a box of another size.

`recipe` is the whole method's: one wide layer (`anyseq.construct.methods.gather_wide`) is taken if
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
from anyseq.construct import needs
from anyseq.construct.ask import Ask, Construction, Recipe
from anyseq.construct.error import SUP, combine
from anyseq.construct.fused_adaptive import HatTable
from anyseq.construct.gadgets import Hats, HatWiring, select, tournament
from anyseq.construct.gathering import least_width
from anyseq.construct.leaves import Leaves, refine
from anyseq.construct.methods import gather, gather_wide
from anyseq.construct.methods.gather import GatherRecipe
from anyseq.construct.smooth import Bound
from anyseq.construct.target import Target
from anyseq.errors import CannotApproximate
from anyseq.nn import Layers


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
        return gather_wide.recipe(ask)
    except CannotApproximate as problem:
        if str(problem) == str(refusal):
            raise
        raise CannotApproximate(f"{refusal}; and in one wide layer {problem}") from None


def _interpolating(ask: Ask) -> GatherRecipe:
    """The cheaper of the even grid and the adaptive one, if f is told box by box."""
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
    if needs.gathering(ask.design) == "all":
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
        if combine(found.terms, ask.norm, ask.p) <= ask.tol:
            return found
        room = max(2 * room, 2 * found.terms[1].value)  # smaller leaves round more
    raise CannotApproximate(f"tol={ask.tol:g} is below the proved bound for rounding in float64")


def _note(ask: Ask, leaves: Leaves) -> str:
    """What it saves, against the grid that is as fine everywhere (rounding aside)."""
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

    values_label: ClassVar[str] = "values of all tokens"
    adds: ClassVar[str] = (
        "Every token adds up the values at the nodes around x, of every level, with their weights."
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

    def _rounding(self) -> float:
        """A bound for |computed T - T|, for the blocks and for the look-up; inputs are float64.

        For |f| <= 1: every pre-activation sums at most width+1 terms whose sizes add up to at most
        (D+scratch+2)m, so it rounds by at most `once`. A form of round r uses scratch of the rounds
        before on both sides: its error is at most 3^r times that. A node feature, at most 3m, is
        filled while what was there is taken off: hidden+2 terms whose sizes add up to at most 9m.
        So s is off, and the hat by that over its reach, which doubles from level to level. At most
        3^D hats of each level, those within one reach of y along each axis, can be on, with values
        of at most 2: together 4 times what s is off. Hats of one level add up to 1, so that sums
        stay below 2K, K the number of levels; each hat rounds its product (2u) and two sums.

        `_summable` moves f by at most 2^K 4K u. The look-up sums K(D+1) products of total size 2K,
        with weights right to 3u. The selector rounds F + B once and back; the outputs of the other
        n-1 tokens, F - B <= 0, may come out above 0 by what F is off, and are added.

        For other f it is in proportion; below 2^-960 underflow would count, so take that.
        """
        axes, tokens, plan = self.ask.axes, self.ask.design.tokens, tournament(self.ask.axes)
        wiring, levels = self._middle, self._levels
        once = (wiring.width + 2) * (axes + plan.scratch + 2) * self.steps
        filled = (wiring.hidden + 2) * 9 * self.steps
        hat = 2 * 3.0 ** (len(plan.rounds) + 1) * once + filled
        sums = 3.0**axes * (4 * hat + levels * (4 * levels + 4))
        looked = 2 * levels * (levels * (axes + 1) + 6)
        moved = 4 * levels * 2.0**levels
        units = tokens * (sums + looked + moved) + 8
        return max(self.ask.bound, 2.0**-960) * (units * UNIT_ROUNDOFF + self._moved())

    @cached_property
    def _hats(self) -> Hats:
        leaves = self.leaves
        return Hats(leaves.nodes, 2 ** (leaves.finest - leaves.node_levels))

    @cached_property
    def _middle(self) -> HatWiring:
        """The chunk that needs the fewest parameters, and where everything lies.

        Features: input/output | positions | slots (D) | values (n·d_out) | scratch | nodes.
        """
        longest = int(power_of_two_at_least(self._hats.longest)).bit_length()
        return min(
            (self._hat_wiring(2**log_chunk) for log_chunk in range(longest)),
            key=lambda wiring: self._shape(wiring).parameters,
        )

    def _hat_wiring(self, chunk: int) -> HatWiring:
        ask, plan = self.ask, tournament(self.ask.axes)
        slots_at = self._position_at + ask.design.tokens + ask.design.bos
        values_at = slots_at + ask.axes
        scratch_at = values_at + ask.entries
        nodes_at = scratch_at + plan.scratch
        hidden = max(4 * chunk, ask.entries, *map(len, plan.rounds))
        return HatWiring(
            axes=ask.axes,
            steps=self.steps,
            chunk=chunk,
            layers=self._hats.layers(chunk, hidden),
            hidden=hidden,
            width=max(
                nodes_at + chunk, least_width(ask.design, ask.features, slots_at, self.wanted)
            ),
            slots_at=slots_at,
            values_at=values_at,
            scratch_at=scratch_at,
            nodes_at=nodes_at,
        )

    def _behind(self, values: torch.Tensor, largest: float) -> list[Layers]:
        ask, wiring = self.ask, self._middle
        last = select(
            tokens=ask.design.tokens,
            out_features=ask.out_features,
            width=wiring.width,
            position_at=self._position_at + ask.design.bos,
            values_at=wiring.values_at,
            bound=power_of_two_at_least(largest) if largest else 1.0,
        )
        return [self._hats.add(values.flatten(1), wiring), last]

    def _summable(self, values: torch.Tensor) -> torch.Tensor:
        """f at the nodes, moved to the nearest multiples of a power of two, such that all that is
        added up at a node of the finest grid is exact.

        With f in units of 2^k, what hats of K levels give at a node, and so what multiplies a hat,
        is in units of 2^(k-K+1), since each level halves at most once; divided by its reach, too.
        Sums are below 2K times the largest value: to be at most 2^52 of these.
        """
        largest = power_of_two_at_least(max(float(values.abs().max()), 2.0**-960))
        unit = largest * power_of_two_at_least(2 * self._levels) * 2.0 ** (self._levels - 53)
        return (values / unit).round() * unit

    def build(self, target: Target, progress: Progress) -> Construction:
        ask, leaves = self.ask, self.leaves
        points = (leaves.nodes.double() / self.steps).view(-1, ask.design.tokens, ask.features)
        values = target(points, progress, "evaluate f at the nodes")
        largest = float(values.abs().max())
        table = HatTable.through(leaves, self._summable(values))
        return Construction(
            table,
            lambda: self._model(table.values, largest),
            largest,
            stages=self._stages(),
        )
