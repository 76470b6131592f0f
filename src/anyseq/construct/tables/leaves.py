"""Adaptive grids: dyadic boxes that are small only where the error requires it.

The cube is cut into 2^D boxes of half its side, and each of those again where need be; the boxes
that are cut no further are the *leaves*, of level l if their side is 2^-l. The *nodes* are all
corners of leaves. The level of a node is the first l at which it is a multiple of 2^-l, but at
least that of the largest leaf. With hat_v the hat of v in the Kuhn grid of its level (see
`anyseq.construct.gadgets.hats`),

    T = Σ_v s_v hat_v,    s_v = f(v) - Σ_(u of lower level) s_u hat_u(v),

so T(v) = f(v) at every node: hats of v's level and above are 0 at v, but its own. A new point u of
the grid of level l, one that is not in the grid of level l-1, is the middle of an edge [a, b] of
that. If u is no node then the hats up to level l give it the mean of what they give a and b.

**Error.** On a leaf of level l, T is as good as if all leaves were of that level: let S be a
simplex of that level in the leaf, I the interpolation of step δ = 2^-l, and x in S. Then
T f(x) = Σ λ_v f(v), where the v are nodes in S, λ >= 0, Σ λ_v = 1 and, for every convex function q,

    Σ λ_v q(v) <= (I q)(x).

For hats up to level l this is I itself, since all corners of S are nodes. The hats of the next
level make of that the interpolant on finer simplices, with the same values at the corners of the
coarser ones, and at the middle u of an edge [a, b] either the same, the mean, or, if u is a node,
f(u). All of [a, b] lies in S (an edge with an inner point in a face of S lies in that face), and
q(u) <= (I q)(u), so that all of this holds again; and so on.

Now |f(x) - T f(x)| <= L Σ λ_v max|x - v|, and the distance to x is convex: it is at most what
`anyseq.construct.request.smooth` says of I. By Taylor at x (Σ λ_v v = x, since q = ± a coordinate
are convex) it is at most (M/2) Σ λ_v |x - v|² <= (M/2)((I|·|²)(x) - |x|²), again what it is for I.
In both only L and M within the leaf count. (A modulus of continuity need not be convex: it does not
serve here.) In L^p the p-th powers of the leaves' errors add up.

**Where to cut.** In sup norm: every box whose bound is too large. In L^p: boxes with the largest
share in the sum, until it is small enough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import torch

from anyseq.construct.counting.lattice import strides
from anyseq.construct.request.smooth import Smoothness
from anyseq.errors import CannotApproximate

_MOST_CORNERS = 2**24  # of all leaves together: memory for a plan
_KEY_BITS = 60  # the number of a node fits 64 bits


@dataclass(frozen=True)
class Leaves:
    """Boxes corner·2^-level + [0, 2^-level]^D that fill the cube, with constants of f in each.

    corner (B, D) and level (B,) whole numbers; lipschitz, curvature (B,), infinite if unknown.
    """

    known: Smoothness
    tokens: int
    features: int
    corner: torch.Tensor
    level: torch.Tensor
    lipschitz: torch.Tensor
    curvature: torch.Tensor

    @classmethod
    def whole(cls, known: Smoothness, tokens: int, features: int) -> Leaves:
        """The cube as one leaf."""
        corner = torch.zeros(1, tokens * features, dtype=torch.int64)
        constants = torch.tensor([[known.lipschitz], [known.curvature]], dtype=torch.float64)
        return cls(known, tokens, features, corner, corner[:, 0], *constants)

    def __len__(self) -> int:
        return len(self.level)

    @property
    def axes(self) -> int:
        return self.tokens * self.features

    @property
    def coarsest(self) -> int:
        """The level of the largest leaf."""
        return int(self.level.min())

    @property
    def finest(self) -> int:
        """The level of the smallest leaf."""
        return int(self.level.max())

    def errors(self, p: float) -> torch.Tensor:
        """(B,): a bound for one entry of |f - T| on each leaf, as a mean of p-th powers there."""
        bounds = torch.full((len(self),), math.inf, dtype=torch.float64)
        for level in range(self.coarsest, self.finest + 1):
            steep, bent = (
                one.interpolation(self.tokens, self.features, 2.0**-level, p).value
                for one in (Smoothness(lipschitz=1.0), Smoothness(curvature=1.0))
            )
            here = torch.minimum(self.lipschitz * steep, self.curvature * bent)
            bounds = torch.where(self.level == level, here, bounds)
        return bounds

    def shares(self, target: float, p: float) -> torch.Tensor:
        """(B,): the parts of (error/target)^p; in sup norm, error/target."""
        ratio = self.errors(p) / target
        if math.isinf(p):
            return ratio
        return ratio**p * 2.0 ** -(self.level * self.axes).double()

    def error(self, p: float) -> float:
        """A bound for one entry of f - T, in L^p over the cube."""
        errors = self.errors(p)
        top = float(errors.max())
        if math.isinf(p) or top == 0.0:
            return top
        return float(top * float(self.shares(top, p).sum()) ** (1 / p))

    def cut(self, rows: torch.Tensor) -> Leaves:
        """The parts of these leaves, 2^D of each, in order."""
        if (int(self.level[rows].max()) + 1) * self.axes > _KEY_BITS:
            raise CannotApproximate(
                f"its smallest boxes have sides below 2^-{_KEY_BITS // self.axes}: in {self.axes} "
                "dimensions their corners cannot be numbered"
            )
        halves = torch.tensor(list(product((0, 1), repeat=self.axes)))
        corner = (2 * self.corner[rows, None] + halves).flatten(0, 1)
        level, steep, bent = (
            numbers[rows].repeat_interleave(len(halves))
            for numbers in (self.level + 1, self.lipschitz, self.curvature)
        )
        side = 2.0 ** -level.double()[:, None, None]
        lower = corner.view(-1, self.tokens, self.features) * side
        if self.known.local_lipschitz is not None:
            told = self.known.local_lipschitz.on("lipschitz", lower, lower + side)
            steep = torch.minimum(steep, told)
        if self.known.local_curvature is not None:
            told = self.known.local_curvature.on("curvature", lower, lower + side)
            bent = torch.minimum(bent, told)
        return Leaves(self.known, self.tokens, self.features, corner, level, steep, bent)

    def replace(self, rows: torch.Tensor, parts: Leaves) -> Leaves:
        """These leaves taken out, and others put in."""
        stay = torch.ones(len(self), dtype=torch.bool)
        stay[rows] = False
        joined = (
            torch.cat([getattr(self, name)[stay], getattr(parts, name)])
            for name in ("corner", "level", "lipschitz", "curvature")
        )
        return Leaves(self.known, self.tokens, self.features, *joined)

    @cached_property
    def keys(self) -> torch.Tensor:
        """(N,): the nodes in ascending order, by their numbers in the finest grid."""
        stride = torch.tensor(strides(2**self.finest + 1, self.axes))
        side = 2 ** (self.finest - self.level)
        first = (self.corner * side[:, None]) @ stride
        corners = torch.tensor(list(product((0, 1), repeat=self.axes))) @ stride
        numbers: torch.Tensor = (first[:, None] + side[:, None] * corners).unique()
        return numbers

    @cached_property
    def nodes(self) -> torch.Tensor:
        """(N, D): the nodes in steps of the finest grid."""
        per_axis = 2**self.finest + 1
        stride = torch.tensor(strides(per_axis, self.axes))
        nodes: torch.Tensor = self.keys[:, None] // stride % per_axis
        return nodes

    @cached_property
    def node_levels(self) -> torch.Tensor:
        """(N,): the levels of the nodes."""
        levels = torch.full((len(self.keys),), self.finest)
        for level in range(self.finest - 1, self.coarsest - 1, -1):
            levels[(self.nodes % 2 ** (self.finest - level) == 0).all(1)] = level
        return levels


def refine(known: Smoothness, tokens: int, features: int, target: float, p: float) -> Leaves:
    """Leaves for an error of at most `target` in one entry, in L^p (sup norm: p = ∞)."""
    leaves, axes = Leaves.whole(known, tokens, features), tokens * features
    if 2**axes > _MOST_CORNERS:
        raise CannotApproximate(f"a box has too many corners in {axes} dimensions")
    while leaves.error(p) > target:
        shares = leaves.shares(target, p)
        if math.isinf(p):
            rows = (leaves.errors(p) > target).nonzero()[:, 0]
        else:
            rows = shares.argsort(descending=True)
            rows = rows[: int((shares >= shares.max() / 2).sum())]
        if (len(leaves) + len(rows) * 2**axes) * 2**axes > _MOST_CORNERS:
            raise CannotApproximate(
                f"cutting where the error is, it needs over {len(leaves):,} boxes in {axes} "
                "dimensions"
            )
        parts = leaves.cut(rows)
        if not math.isinf(p):
            # the last round: no more than are needed
            gain = shares[rows] - parts.shares(target, p).view(len(rows), -1).sum(1)
            enough = (shares.sum() - gain.cumsum(0) <= 1).nonzero()[:, 0]
            if len(enough):
                rows = rows[: int(enough[0]) + 1]
                parts = leaves.cut(rows)
        leaves = leaves.replace(rows, parts)
    return leaves
