"""What sampling shows about f: how steep, how large, continuous or not, equivariant or not.

Nothing here proves anything good about f; it only finds contradictions, with the inputs that show
them, and estimates that are labelled as such.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from anyseq.base import UNIT_ROUNDOFF, generator, uniform
from anyseq.construct.counting.lattice import lattice
from anyseq.construct.request.local import Local
from anyseq.construct.request.smooth import Smoothness
from anyseq.construct.request.target import Target
from anyseq.errors import CannotApproximate, InvalidFunction

_POINTS = 2048
_ENTRIES = 1 << 25  # of the points of all differences together
_MOST_NODES = 1 << 20  # of a grid that bounds |f|
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


def steepest(target: Target, rng: torch.Generator, only: int | None = None) -> Slope:
    """The steepest pair found: a lower bound for the Lipschitz constant in the max norm.

    An entry with gradient g changes fastest, in the max norm, along sign(g), at the rate Σ|g_i|.
    only: move this feature alone.
    """
    axes = target.tokens * target.features
    points = max(16, min(_POINTS, _ENTRIES // axes**2))
    x = uniform(points, axes, rng=rng) * (1 - 2 * _STEP) + _STEP
    shape = (-1, target.tokens, target.features)
    value = target(x.view(shape)).flatten(1)
    moved = x[:, None, :] + _STEP * torch.eye(axes, dtype=x.dtype)
    gradient = target(moved.view(shape)).view(points, axes, -1) - value[:, None, :]
    if only is not None:
        gradient[:, torch.arange(axes) % target.features != only] = 0.0
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


def check_lipschitz(lipschitz: float, slope: Slope, name: str = "lipschitz") -> None:
    """Raise an error if a pair of inputs contradicts a given constant."""
    if slope.value > lipschitz * (1 + 1e-6):
        raise InvalidFunction(
            f"{name}={lipschitz:g} is too small: between x = {slope.x.tolist()} and "
            f"y = {slope.y.tolist()} f changes at the rate {slope.value:.6g} (max norm)"
        )


def check_smooth(target: Target, smooth: Smoothness, slope: Slope, seed: int) -> None:
    """Raise an error if samples contradict what was given; `slope` is the steepest pair of f."""
    rng = generator(seed)
    if smooth.lipschitz < math.inf:
        check_lipschitz(smooth.lipschitz, slope)
    for feature, constant in enumerate(smooth.per_feature or ()):
        alone = steepest(target, rng, only=feature)
        check_lipschitz(constant, alone, f"lipschitz[{feature}]")
    if smooth.modulus is not None:
        _check_modulus(target, smooth, rng)
    if smooth.local_lipschitz is not None:
        _check_local_lipschitz(target, smooth.local_lipschitz, rng)
    if smooth.curvature < math.inf:
        _check_no_jump(target, smooth, rng)
        _check_curvature(target, smooth, slope, rng)


def _check_local_lipschitz(target: Target, local: Local, rng: torch.Generator) -> None:
    """Pairs at many distances, with the constant of the box that they span."""
    x, y, change, noise = _pairs(target, rng)
    lower, upper = torch.minimum(x, y), torch.maximum(x, y)
    most = local.on("lipschitz", lower, upper) * (y - x).abs().flatten(1).amax(1)
    over = change - most * (1 + 1e-6) - noise
    at = int(over.argmax())
    if float(over[at]) > 0:
        raise InvalidFunction(
            f"lipschitz: Local is too small on the box from {lower[at].tolist()} to "
            f"{upper[at].tolist()}: f changes by {float(change[at]):.6g} between x = "
            f"{x[at].tolist()} and y = {y[at].tolist()}, where at most {float(most[at]):.6g} is "
            "allowed"
        )


def _pairs(
    target: Target, rng: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, float]:
    """(x, y, |f(x) - f(y)|, its noise) at distances from 1 down to 2^-15, also along edges, where
    roots are steep."""
    x, y = uniform(2, _POINTS, target.tokens, target.features, rng=rng)
    x[::4] = x[::4].round()
    y = x + (y - x) * 2.0 ** -(torch.arange(_POINTS) % 16).double()[:, None, None]
    values = target(x)
    change = (values - target(y)).abs().flatten(1).amax(1)
    return x, y, change, 8 * UNIT_ROUNDOFF * float(values.abs().max())


def _check_modulus(target: Target, smooth: Smoothness, rng: torch.Generator) -> None:
    x, y, change, noise = _pairs(target, rng)
    distance = (x - y).abs().flatten(1).amax(1)
    for row in range(_POINTS):
        most = smooth.change(float(distance[row]))
        if float(change[row]) > most * (1 + 1e-6) + noise:
            raise InvalidFunction(
                f"lipschitz: the modulus allows {most:.6g} at distance {float(distance[row]):.6g}, "
                f"but between x = {x[row].tolist()} and y = {y[row].tolist()} f changes by "
                f"{float(change[row]):.6g}"
            )


def _check_curvature(
    target: Target, smooth: Smoothness, slope: Slope, rng: torch.Generator
) -> None:
    """Second differences |f(x-v) - 2f(x) + f(x+v)| <= M|v|², for v of many lengths, such that the
    entries of x - v and x + v are in the same order: along one axis, along the diagonal, in any
    direction. If M is given per box, it is that of the box that they span."""
    axes = target.tokens * target.features
    a, b = uniform(2, _POINTS, axes, rng=rng)
    b[:512] = torch.where(torch.eye(axes)[torch.arange(512) % axes] > 0, b[:512], a[:512])
    b[512:1024] = (a[512:1024] + uniform(512, 1, rng=rng) - 0.5).clamp(0.0, 1.0)
    b[1024:] = b[1024:].sort(1).values.gather(1, a[1024:].argsort(1).argsort(1))
    b = a + (b - a) * (_while_in_order(a, b) * 2.0 ** -(torch.arange(_POINTS) % 8))[:, None]
    middle = (a + b) / 2
    shape = (_POINTS, target.tokens, target.features)
    values = [target(x.view(shape)) for x in (a, middle, b)]
    bend = (values[0] - 2 * values[1] + values[2]).abs().flatten(1).amax(1)
    # the middle point is rounded, which moves f by its slope, and f rounds by itself
    largest = max(float(value.abs().max()) for value in values)
    noise = 32 * UNIT_ROUNDOFF * (largest + slope.value)
    constant = torch.full((_POINTS,), smooth.curvature, dtype=torch.float64)
    if smooth.local_curvature is not None:
        ends = torch.minimum(a, b).view(shape), torch.maximum(a, b).view(shape)
        constant = smooth.local_curvature.on("curvature", *ends)
    most = constant * ((b - a) / 2).square().sum(1)
    over = bend - most * (1 + 1e-6) - noise
    at = int(over.argmax())
    if float(over[at]) > 0:
        raise InvalidFunction(
            f"curvature={float(constant[at]):g} is too small: between "
            f"x = {a[at].view(shape[1:]).tolist()}, "
            f"y = {b[at].view(shape[1:]).tolist()} and half way f bends by {float(bend[at]):.6g}, "
            f"where at most {float(most[at]):.6g} is allowed"
        )


def _while_in_order(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """(points,): the share of the way from a to b (points, D) until two entries are equal, or 1.
    The first two to meet are neighbours in the order of a."""
    order = a.argsort(1)
    gap = a.gather(1, order).diff(dim=1)
    closing = -(b - a).gather(1, order).diff(dim=1)
    share = torch.where(closing > gap, gap / closing.clamp(min=1e-300), 1.0)
    return torch.cat([share, torch.ones_like(a[:, :1])], dim=1).amin(1)


def _check_no_jump(target: Target, smooth: Smoothness, rng: torch.Generator) -> None:
    """A curvature requires a continuous f."""
    jump, x, y = _widest_jump(target, smooth, rng)
    if jump > 1e-6 * float(target(uniform(256, *x.shape, rng=rng)).abs().max()):
        raise InvalidFunction(
            f"curvature={smooth.curvature:g}: expected a continuous f, but between "
            f"x = {x.tolist()} and y = {y.tolist()} it changes by {jump:.6g}"
        )


def largest_value(target: Target, smooth: Smoothness) -> float:
    """A bound for |f| on the cube, proved if f is as smooth as that says.

    Every point is within half a cell of a cell centre of a coarse grid. With a curvature alone: f
    is within the error of interpolation of a mean of its values at the nodes.
    """
    axes = target.tokens * target.features
    per_axis = max(1, int(4096 ** (1 / axes)))
    if smooth.continuous:
        points = (lattice(per_axis, axes).double() + 0.5) / per_axis
        more = smooth.change(1 / (2 * per_axis))
    else:
        if (per_axis + 1) ** axes > _MOST_NODES:
            raise CannotApproximate(
                f"curvature={smooth.curvature:g} alone bounds |f| by its values at the "
                f"2^{axes} corners of the cube, too many; give lipschitz= as well"
            )
        points = lattice(per_axis + 1, axes).double() / per_axis
        more = smooth.interpolation(target.tokens, target.features, 1 / per_axis).value
    values = target(points.view(-1, target.tokens, target.features))
    return float(values.abs().max()) + more


def check_continuous(
    target: Target, tol: float, smooth: Smoothness | None, rng: torch.Generator
) -> None:
    """Raise an error if two almost equal inputs have values further apart than tol."""
    jump, x, y = _widest_jump(target, smooth, rng)
    if jump > tol:
        raise CannotApproximate(
            "f is not continuous, and no continuous network comes closer than half a jump in sup "
            "norm; use norm='lp'",
            (
                f"between x = {x.tolist()} and y = {y.tolist()}, {float((x - y).abs().max()):.2g} "
                f"apart, f changes by {jump:.6g}",
            ),
        )


def _widest_jump(
    target: Target, smooth: Smoothness | None, rng: torch.Generator
) -> tuple[float, torch.Tensor, torch.Tensor]:
    """Its size, 0 if there is none, and the two inputs.

    Random segments are cut where f changes most, again and again, down to a distance of 2^-40. It
    is a jump if the change there contradicts what is known of f, or, if nothing is, is still more
    than half of what it was at a thousand times the distance.
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
    if smooth is None or not smooth.continuous:
        jump = torch.where(jump > near / 2, jump, 0.0)
    else:
        allowed = [2 * smooth.change(float(apart)) for apart in (x - y).abs().amax(1)]
        jump = torch.where(jump > torch.tensor(allowed, dtype=jump.dtype), jump, 0.0)
    at = int(jump.argmax())
    return float(jump[at]), x[at].view(shape[1:]), y[at].view(shape[1:])


def check_equivariant(target: Target, rng: torch.Generator) -> None:
    """Raise an error if permuting the tokens does not permute the outputs of f."""
    x = uniform(256, target.tokens, target.features, rng=rng)
    order = torch.stack([torch.randperm(target.tokens, generator=rng) for _ in x])
    rows = torch.arange(len(x))[:, None]
    y = target(x)
    gap = (y[rows, order] - target(x[rows, order])).abs().flatten(1).amax(1)
    at = int(gap.argmax())
    if float(gap[at]) > 1e-9 * max(1.0, float(y.abs().max())):
        raise CannotApproximate(
            "without positions a network treats every order of the tokens alike, but f does not; "
            "use absolute positions",
            (
                f"at x = {x[at].tolist()}, reordered by {order[at].tolist()}, f(reordered x) and "
                f"reordered f(x) differ by {float(gap[at]):.6g}",
            ),
        )


def check_causal(target: Target, rng: torch.Generator) -> None:
    """Raise an error if an output of f changes with later tokens."""
    x, later = uniform(2, 256, target.tokens, target.features, rng=rng)
    last = torch.arange(256) % target.tokens  # the last token that stays as it is
    stays = torch.arange(target.tokens)[None, :, None] <= last[:, None, None]
    y, z = target(x), target(torch.where(stays, x, later))
    gap = torch.where(stays, (y - z).abs(), 0.0).flatten(1).amax(1)
    at = int(gap.argmax())
    if float(gap[at]) > 1e-9 * max(1.0, float(y.abs().max())):
        raise CannotApproximate(
            "in this design no token is reached by all later ones, but f depends on them; use "
            "another pattern",
            (
                f"at x = {x[at].tolist()}, other tokens after token {int(last[at])} change f up to "
                f"there by {float(gap[at]):.6g}",
            ),
        )
