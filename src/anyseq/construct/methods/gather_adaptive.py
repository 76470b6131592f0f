"""Method "gather" where f is told box by box: nodes only where the error asks for them.

As `anyseq.construct.methods.gather`, but the interpolator adds hats of several levels, at the nodes
of an adaptive grid (`anyseq.construct.leaves`, with the proof). It is taken where it needs fewer
parameters than the grid that is as fine everywhere. Every token must hold the whole sequence: what
a causal design leaves in the slots of later tokens may lie in a box of another size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count

import torch

from anyseq.base import UNIT_ROUNDOFF, Progress
from anyseq.construct import needs
from anyseq.construct.ask import Ask, Construction
from anyseq.construct.error import SUP, combine
from anyseq.construct.fused_adaptive import HatTable
from anyseq.construct.gadgets import Hats, Wiring, tournament
from anyseq.construct.leaves import Leaves, refine
from anyseq.construct.methods import gather
from anyseq.construct.methods.gather import GatherRecipe
from anyseq.construct.smooth import Bound
from anyseq.construct.target import Target
from anyseq.errors import CannotApproximate
from anyseq.nn import Layers


def recipe(ask: Ask) -> GatherRecipe:
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
        if adaptive is not None and (
            even is None or adaptive.shape.parameters < even.shape.parameters
        ):
            return adaptive
    if even is not None:
        return even
    assert refusal is not None
    raise refusal


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
    raise CannotApproximate(f"tol={ask.tol:g} is below the rounding of float64")


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
        """As for the even grid of the smallest step, for |f| <= 1, with these differences.

        Values are at most 2, hats of one level add up to 1, so that sums of hats and values stay
        below 2K, K the number of levels. s is off by `once` and `filled` as there, the hat by that
        over its reach, which doubles from level to level: 3^D hats of each level that can be on,
        with values of at most 2, make it 4 times that together; each hat rounds its product (2u),
        and two sums (2K u each). The look-up sums K(D+1) products of total size 2K, with weights
        right to 3u. So do the values themselves, made by it: they are not added up, since each
        makes good for what those of lower levels are off.
        """
        axes, tokens, plan = self.ask.axes, self.ask.design.tokens, tournament(self.ask.axes)
        wiring, levels = self.wiring, self._levels
        once = (wiring.width + 2) * (axes + plan.scratch + 2) * self.steps * UNIT_ROUNDOFF
        filled = (wiring.hidden + 2) * 9 * self.steps * UNIT_ROUNDOFF
        hat = 2 * 3.0 ** (len(plan.rounds) + 1) * once + filled
        looked = 2 * levels * (levels * (axes + 1) + 6) * UNIT_ROUNDOFF
        sums = levels * (4 * levels + 4) * UNIT_ROUNDOFF
        unit = tokens * (3.0**axes * (4 * hat + sums) + 2 * looked) + 8 * UNIT_ROUNDOFF
        return max(self.ask.bound, 2.0**-960) * (unit + self._moved())

    @cached_property
    def _hats(self) -> Hats:
        leaves = self.leaves
        return Hats(leaves.nodes, 2 ** (leaves.finest - leaves.node_levels))

    @property
    def _longest(self) -> int:
        return self._hats.longest

    def _middle(self, wiring: Wiring) -> int:
        return self._hats.layers(wiring)

    def _interpolator(self, values: torch.Tensor) -> Layers:
        return self._hats.add(values, self.wiring)

    def build(self, target: Target, progress: Progress) -> Construction:
        ask, leaves = self.ask, self.leaves
        points = (leaves.nodes.double() / self.steps).view(-1, ask.design.tokens, ask.features)
        values = target(points, progress, "evaluate f at the nodes")
        table = HatTable.through(leaves, values)
        largest = float(values.abs().max())
        return Construction(
            table,
            lambda: self._model(table.values, largest),
            largest,
            stages=self._stages(),
        )
