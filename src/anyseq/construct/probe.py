"""What sampling can say about f: how steep, how large, continuous or not, equivariant or not.

Nothing here proves anything good about f; it only finds contradictions, with the inputs that show
them, and estimates that are labelled as such.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from anyseq.base import UNIT_ROUNDOFF, uniform
from anyseq.construct.lattice import lattice
from anyseq.construct.target import Target
from anyseq.errors import CannotApproximate, InvalidFunction

_POINTS = 2048
_ENTRIES = 1 << 25  # of the points of all differences together
_STEP = 2.0**-16  # of the finite differences: small against any cell, large against rounding
_NEAR, _CLOSE = 2.0**-30, 2.0**-40  # a change that does not shrink between the two is a jump


@dataclass(frozen=True)
class Slope:
    """|f(x) - f(y)| / max|x - y| = value, in some entry of f.

    typical: exceeded by one pair in a hundred only.
    """

    value: float
    typical: float
    x: torch.Tensor
    y: torch.Tensor


def steepest(target: Target, rng: torch.Generator) -> Slope:
    """The steepest pair found: a lower bound for the Lipschitz constant in the max norm.

    An entry with gradient g changes fastest, in the max norm, along sign(g), at the rate Σ|g_i|.
    """
    axes = target.tokens * target.features
    points = max(16, min(_POINTS, _ENTRIES // axes**2))
    x = uniform(points, axes, rng=rng) * (1 - 2 * _STEP) + _STEP
    shape = (-1, target.tokens, target.features)
    value = target(x.view(shape)).flatten(1)
    moved = x[:, None, :] + _STEP * torch.eye(axes, dtype=x.dtype)
    gradient = target(moved.view(shape)).view(points, axes, -1) - value[:, None, :]
    entry = gradient.abs().sum(1).argmax(1)
    direction = gradient[torch.arange(points), :, entry].sign()
    y = x + _STEP * direction
    distance = (y - x).abs().amax(1)
    change = (target(y.view(shape)).flatten(1) - value).abs().amax(1)
    # what rounding of f alone may do is no slope
    change = (change - 8 * UNIT_ROUNDOFF * value.abs().amax(1)).clamp(min=0.0)
    rate = torch.where(distance > 0, change / distance.clamp(min=1e-300), 0.0)
    best = int(rate.argmax())
    typical = float(rate.quantile(0.99))
    return Slope(float(rate[best]), typical, x[best].view(shape[1:]), y[best].view(shape[1:]))


def check_lipschitz(lipschitz: float, slope: Slope) -> None:
    """Refuse a given constant that a pair of inputs contradicts."""
    if slope.value > lipschitz * (1 + 1e-6):
        raise InvalidFunction(
            f"lipschitz={lipschitz:g} is too small: between x = {slope.x.tolist()} and "
            f"y = {slope.y.tolist()} f changes at the rate {slope.value:.6g} (max norm)"
        )


def largest_value(target: Target, lipschitz: float) -> float:
    """A bound for |f| on the cube, proved if f is `lipschitz`-Lipschitz in the max norm.

    Every point is within half a cell of a cell centre of a coarse grid.
    """
    axes = target.tokens * target.features
    per_axis = max(1, int(4096 ** (1 / axes)))
    centres = (lattice(per_axis, axes).double() + 0.5) / per_axis
    values = target(centres.view(-1, target.tokens, target.features))
    return float(values.abs().max()) + lipschitz / (2 * per_axis)


def check_continuous(
    target: Target, tol: float, lipschitz: float | None, rng: torch.Generator
) -> None:
    """Refuse f if two inputs almost equal have values further apart than tol.

    Random segments are cut where f changes most, again and again, down to a distance of 2^-40. It
    is a jump if the change there contradicts the Lipschitz constant, or, if none is given, is still
    more than half of what it was at a thousand times the distance.
    """
    shape = (-1, target.tokens, target.features)
    segments, cuts = 256, 65
    ends = uniform(2, segments, target.tokens * target.features, rng=rng)
    # half of the segments run along one axis: jumps at x_i = c are common
    half, axes = segments // 2, ends.shape[2]
    along = torch.eye(axes, dtype=torch.bool)[torch.arange(half) % axes]
    ends[1, :half] = torch.where(along, 1.0 - ends[0, :half].round(), ends[0, :half])
    grid = torch.linspace(0, 1, cuts, dtype=torch.float64)[:, None, None]
    points = ends[0] + grid * (ends[1] - ends[0])
    values = target(points.view(shape)).view(cuts, segments, -1)
    worst = values.diff(dim=0).abs().amax(2).argmax(0)
    pick = torch.arange(segments)
    x, y = points[worst, pick], points[worst + 1, pick]
    fx, fy = values[worst, pick], values[worst + 1, pick]
    near = torch.full((segments,), torch.inf, dtype=torch.float64)
    while float((x - y).abs().max()) > _CLOSE:
        if float((x - y).abs().max()) > _NEAR:
            near = (fx - fy).abs().amax(1)
        middle = (x + y) / 2
        fm = target(middle.view(shape)).flatten(1)
        left = ((fx - fm).abs().amax(1) >= (fy - fm).abs().amax(1))[:, None]
        y, fy = torch.where(left, middle, y), torch.where(left, fm, fy)
        x, fx = torch.where(left, x, middle), torch.where(left, fx, fm)
    jump = (fx - fy).abs().amax(1)
    if lipschitz is None:
        jump = torch.where(jump > near / 2, jump, 0.0)
    else:
        jump = torch.where(jump > 2 * lipschitz * (x - y).abs().amax(1), jump, 0.0)
    at = int(jump.argmax())
    if float(jump[at]) > tol:
        raise CannotApproximate(
            "f is not continuous, and no continuous network comes closer than half a jump in sup "
            "norm; use the norm 'lp'",
            (
                f"between x = {x[at].view(shape[1:]).tolist()} and "
                f"y = {y[at].view(shape[1:]).tolist()}, {float((x - y)[at].abs().max()):.2g} "
                f"apart, f changes by {float(jump[at]):.6g}",
            ),
        )


def check_equivariant(target: Target, rng: torch.Generator) -> None:
    """Refuse f if permuting the tokens does not permute the outputs."""
    x = uniform(256, target.tokens, target.features, rng=rng)
    order = torch.stack([torch.randperm(target.tokens, generator=rng) for _ in x])
    rows = torch.arange(len(x))[:, None]
    y = target(x)
    gap = (y[rows, order] - target(x[rows, order])).abs().flatten(1).amax(1)
    at = int(gap.argmax())
    if float(gap[at]) > 1e-9 * max(1.0, float(y.abs().max())):
        raise CannotApproximate(
            "without positions a network treats every order of the tokens alike, and f does not; "
            "use absolute positions",
            (
                f"at x = {x[at].tolist()}, reordered by {order[at].tolist()}, f(reordered x) and "
                f"reordered f(x) differ by {float(gap[at]):.6g}",
            ),
        )


def check_causal(target: Target, rng: torch.Generator) -> None:
    """Refuse f if the output of a token changes with later tokens."""
    x, later = uniform(2, 256, target.tokens, target.features, rng=rng)
    last = torch.arange(256) % target.tokens  # the last token that stays as it is
    stays = torch.arange(target.tokens)[None, :, None] <= last[:, None, None]
    y, z = target(x), target(torch.where(stays, x, later))
    gap = torch.where(stays, (y - z).abs(), 0.0).flatten(1).amax(1)
    at = int(gap.argmax())
    if float(gap[at]) > 1e-9 * max(1.0, float(y.abs().max())):
        raise CannotApproximate(
            "in this design no token learns of all later ones, and f looks at them; use another "
            "pattern",
            (
                f"at x = {x[at].tolist()}, other tokens after token {int(last[at])} change f up to "
                f"there by {float(gap[at]):.6g}",
            ),
        )
