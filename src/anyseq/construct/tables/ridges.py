"""One hidden layer for any continuous f: a positive kernel of cosines, and ridges for the cosines.

Let f be defined on [0, 1]^D, θ_i = πx_i, and f be reflected evenly to the circle along each axis.
With the kernel of Fejér and Korovkin of degree N, a square and so not negative,

    K(θ) = |Σ_(j=0..N) c_j e^(ijθ)|² = 1 + 2 Σ_(k=1..N) ρ_k cos kθ,   c_j ~ sin((j+1)π/(N+2)),

Σ c_j² = 1, ρ_k = Σ_j c_j c_(j+k), and the m = N+1 nodes (2v+1)/(2m) of an axis, 2m on the circle,

    T f(x) = mean over the nodes v of the circles of f(v) Π_i K(θ_i - θ_(v_i))

is a mean of values of f: sums over 2m nodes are exact for cosines of degrees below 2m, so that the
weights add up to 1, and the means of 1 - cos(θ_i - θ_v) and of 1 - cos 2(θ_i - θ_v) are 1 - ρ_1
and 1 - ρ_2.

**Distance.** For |θ| <= π and y = sin²(θ/2)

    θ² <= 4y + (π² - 4) y²:

arcsin²(√y) = Σ_(n>=1) (4y)^n / (2n² C(2n, n)) has no negative coefficient and begins with y, so
that (arcsin²(√y) - y)/y² grows, up to π²/4 - 1 at y = 1. The means of y and y² are (1-ρ_1)/2 and
(3 - 4ρ_1 + ρ_2)/8; so the mean σ² of |x_i - v_i|² is known, and that of max_i |x_i - v_i| is at
most σ√D. Hence |T f - f| <= L σ√D; with L_k for each feature Σ_k L_k σ√n; with a modulus 2 ω(σ√D),
since |f(x) - f(y)| <= (1 + |x-y|/h) ω(h): walk from x to y in steps of h.

**Ridges.** T f = Σ_k a_k Π_i cos(π k_i x_i), k in {0, ..., N}^D, is a sum of cosines cos(πκ·x), κ
with signs, |κ_i| = k_i, whose amplitudes add up to a_k. Those of multiples g = 1, ..., G of one
direction κ without common factor make a function φ of one variable u = κ·x. Linear interpolation of
φ at the knots, all multiples of 1/(qG) away from the least u, errs by at most (πg/(qG))²/8 of each
amplitude: by (π/q)²/8 Σ_(k≠0) |a_k| in all.

**Amplitudes.** a_k = Π_i (2 - [k_i=0]) ρ_(k_i) F_k, where F_k is the mean over all nodes of f times
its cosines. These are orthogonal: with w_k = Π_i (2 - [k_i=0]) Parseval says that Σ w_k F_k² is the
mean of f², at most B², and that Σ w_k λ_k F_k², λ_k = Σ_i 4 sin²(πk_i/(2m)), is the mean of all
squared differences of neighbouring nodes, at most D ω(1/m)². So, by Cauchy and Schwarz,

    Σ_(k≠0) |a_k| <= √(Σ_(k≠0) w_k ρ_k²) B,   √(Σ_(k≠0) w_k ρ_k²/λ_k) √D ω(1/m),

ρ_k = Π_i ρ_(k_i); and so for the sum of |a_k| (Σ_i k_i)^2, with (Σ_i k_i)^4 under both roots.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch

from anyseq.base import UNIT_ROUNDOFF
from anyseq.construct.counting.lattice import lattice
from anyseq.construct.request.smooth import Bound, Smoothness
from anyseq.errors import CannotApproximate


def kernel(degree: int, most: int | None = None) -> torch.Tensor:
    """ρ_0 = 1, ρ_1, ..., ρ_N, or up to ρ_most."""
    angle = torch.arange(1, degree + 2, dtype=torch.float64) * (math.pi / (degree + 2))
    c = angle.sin()
    c = c / c.norm()
    last = degree if most is None else min(most, degree)
    return torch.stack([c[: degree + 1 - k] @ c[k:] for k in range(last + 1)])


def distance(degree: int) -> float:
    """σ, the root of the mean of |x - v|² along an axis, rounded up: ρ_1 = cos(π/(N+2))."""
    rho = [*kernel(degree, 2).tolist(), 0.0]
    one = math.sin(math.pi / (2 * degree + 4)) ** 2
    two = (3 - 4 * rho[1] + rho[2]) / 8 + (degree + 8) * UNIT_ROUNDOFF
    return math.sqrt(4 * one + (math.pi**2 - 4) * two) / math.pi


def kernel_error(known: Smoothness, tokens: int, features: int, degree: int) -> Bound:
    """A bound for |T f - f| in one entry."""
    sigma, at = distance(degree), f"N = {degree}"
    if known.modulus is not None:
        far = sigma * math.sqrt(tokens * features)
        return Bound(2 * known.change(min(far, 1.0)), f"2 ω(σ√D), σ = {sigma:.3g}, {at}")
    if not known.continuous:
        raise CannotApproximate(
            "one wide layer needs a Lipschitz constant or a modulus of continuity; curvature alone "
            "will not do"
        )
    per_feature = known.per_feature is not None
    axes, letter = (tokens, "n") if per_feature else (tokens * features, "D")
    why = f"L σ√{letter}, L = {known.lipschitz:g}, σ = {sigma:.3g}, {at}, {letter} = {axes}"
    return Bound(known.lipschitz * sigma * math.sqrt(axes), why)


@dataclass(frozen=True)
class Ridges:
    """All directions for D = axes and degree N; knots at multiples of 1/(qG), q = steps."""

    axes: int
    degree: int
    steps: int

    def amplitude(self, known: Smoothness, bound: float, power: int = 0) -> float:
        """A bound for Σ_(k≠0) |a_k| (Σ_i k_i)^power, |f| <= bound."""
        nodes, rho = self.degree + 1, kernel(self.degree)
        k = torch.arange(nodes, dtype=torch.float64)
        weight, stiff = torch.ones(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
        sums, along = stiff, torch.where(k > 0, 2.0, 1.0) * rho**2
        for _ in range(self.axes):
            weight = (weight[:, None] * along).flatten()
            sums = (sums[:, None] + k).flatten()
            stiff = (stiff[:, None] + 4 * (k * math.pi / (2 * nodes)).sin() ** 2).flatten()
        weight = weight * sums ** (2 * power)
        most = math.sqrt(float(weight[1:].sum())) * bound
        if known.continuous:
            rises = math.sqrt(float((weight[1:] / stiff[1:]).sum()) * self.axes)
            most = min(most, rises * known.change(1 / nodes))
        return most * (1 + 2.0**-30)  # sums of up to 2^21 numbers round

    @property
    def error(self) -> float:
        """What interpolation adds, for amplitudes of 1 in all."""
        return (math.pi / self.steps) ** 2 / 8

    @cached_property
    def directions(self) -> torch.Tensor:
        """(R, D) int64: without common factor, the first entry that is not 0 positive."""
        every = lattice(2 * self.degree + 1, self.axes) - self.degree
        every = every[len(every) // 2 + 1 :]  # in lexicographic order: those above 0
        common = every[:, 0].abs()
        for axis in range(1, self.axes):
            common = torch.gcd(common, every[:, axis].abs())
        return every[common == 1]

    @cached_property
    def harmonics(self) -> torch.Tensor:
        """(R,) G: how many multiples of a direction there are."""
        return self.degree // self.directions.abs().amax(1)

    @cached_property
    def pieces(self) -> torch.Tensor:
        """(R,) how many pieces a ridge has."""
        return self.steps * self.harmonics * self.directions.abs().sum(1)

    @cached_property
    def low(self) -> torch.Tensor:
        """(R,) int64: the least u."""
        return self.directions.clamp(max=0).sum(1)

    @cached_property
    def first(self) -> torch.Tensor:
        """(R,) where the knots of a ridge begin, pieces + 1 of them."""
        count = self.pieces + 1
        return count.cumsum(0) - count

    def nodes(self) -> torch.Tensor:
        """((N+1)^D, D)."""
        per_axis = self.degree + 1
        return (2 * lattice(per_axis, self.axes).double() + 1) / (2 * per_axis)

    def profiles(self, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Values at the nodes (nodes, ...) -> a_0 (...), and φ at all knots (knots, ...)."""
        count, rest = self.degree + 1, values.shape[1:]
        v = torch.arange(count)
        turn = (v[:, None] * (2 * v + 1)) % (4 * count)  # of 4m parts of a circle
        along = (turn.double() * (math.pi / (2 * count))).cos() * kernel(self.degree)[:, None]
        along[1:] *= 2
        a = values.reshape(*[count] * self.axes, -1)
        for axis in range(self.axes):
            a = torch.tensordot(along / count, a, dims=([1], [axis])).movedim(0, axis)
        row = torch.repeat_interleave(torch.arange(len(self.first)), self.pieces + 1)
        parts = (self.steps * self.harmonics)[row]  # of a unit of u
        place = torch.arange(len(row)) - self.first[row] + self.low[row] * parts
        several = 2.0 ** ((self.directions != 0).sum(1).double() - 1)
        flat = a.reshape(count**self.axes, -1)
        stride = torch.tensor([count ** (self.axes - 1 - axis) for axis in range(self.axes)])
        phi = torch.zeros(len(row), flat.shape[1], dtype=torch.float64)
        for g in range(1, self.degree + 1):
            has = self.harmonics >= g
            number = torch.where(has, g * (self.directions.abs() @ stride), 0)
            share = torch.where(has[:, None], flat[number] / several[:, None], 0.0)
            on = has[row]
            turn = g * place[on] % (2 * parts[on])
            phi[on] += (turn * (math.pi / parts[on].double())).cos()[:, None] * share[row[on]]
        return flat[0].reshape(rest), phi.reshape(-1, *rest)
