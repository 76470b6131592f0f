"""How f varies: what a caller may know about f, and the bounds on a grid that follow.

Every bound holds for each entry of f, with x of n tokens and d features, D = n·d:

    lipschitz      |f(x)-f(y)| <= L max|x-y|
    per feature    |f(x)-f(y)| <= Σ_k L_k max_j |x_jk - y_jk|    (so L = Σ_k L_k)
    modulus        |f(x)-f(y)| <= ω(max|x-y|), ω nondecreasing
    curvature      |second derivative along any unit vector (Euclidean)| <= M: the spectral norm of
                   the Hessian, wherever no two entries of x are equal; f must be continuous
                   everywhere, there it need only be C^1 with an M-Lipschitz gradient

**Interpolation** on the Kuhn triangulation of step δ. Let y_(1) >= ... >= y_(D) be the sorted
fractions of x in its cube, y_(0) = 1, y_(D+1) = 0. Then x = Σ_k w_k v_k over the D+1 nodes of its
simplex, with w_k = y_(k) - y_(k+1) and max|x - v_k| = δ max(1 - y_(k), y_(k+1)).

- lipschitz: the error is at most L δ Σ_k w_k max(1 - y_(k), y_(k+1)). The intervals
  [y_(k+1), y_(k)] cut [0, 1] into D+1 pieces. The integral of max(1-t, t) over [0, 1] is 3/4, and
  a piece [a, b] has less in the sum than in the integral. With l = b-a, the loss is l²/2 if it does
  not contain 1/2; if it does, with 1/2-a = s and b-1/2 = t, it is (s²+t²)/2 + (s+t)min(s,t) >=
  l²/2. D+1 pieces of total length 1 lose at least 1/(2(D+1)) together. Hence

      L δ (3/4 - 1/(2(D+1)))    (attained for odd D, e.g. Lδ/2 for D = 1).

- per feature: the nodes seen in the n entries of one feature are those of its own Kuhn simplex, so
  the same holds for each feature with n in place of D: Σ_k L_k δ (3/4 - 1/(2(n+1))).
- modulus: for t >= 1/2, a node further than tδ has its piece in [0, 1-t) or in (t, 1]; so the
  weight of all such nodes is at most 2(1-t), that of U in [0, 1] with max(U, 1-U) > t. ω being
  nondecreasing, the error is at most the mean of ω(δ max(U, 1-U)); the mean over K equal shells,
  each at its outer end, is at least that.
- curvature: by Taylor at x, whose linear terms cancel, the error is at most
  (M/2) Σ_k w_k |x - v_k|² = (M/2) δ² Σ_i y_i (1 - y_i), since v_k has in axis i the upper node with
  weight y_i. That is at most D δ² M/8, attained by |x|²M/2 at the cube's centre. In L^p
  (Minkowski, ∫ (y(1-y))^p dy = B(p+1, p+1)) it is at most (M/2) δ² D B(p+1, p+1)^(1/p).
  Kinks where two entries are equal do no harm, as in sort or max: inside a simplex there are none.
  Its points have fractions in one order, without ties, in one cube: in x_i - x_j = δ(b_i - b_j +
  y_i - y_j) either b_i = b_j and y_i ≠ y_j, or |b_i - b_j| >= 1 > |y_i - y_j|. From x inside, the
  way to v_k stays inside up to its end, so Taylor holds along it, and at the end by continuity; for
  x on the boundary the error is a limit of errors inside.

**Off centre**: f against its value at the centre of a cell of side δ. R = max|x - centre|/(δ/2) has
P(R <= r) = r^D, so (E R^p)^(1/p) = (D/(D+p))^(1/p); per feature the same with n, by Minkowski; with
a modulus in shells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from anyseq.base import non_negative
from anyseq.construct.request.local import ROOM, Local
from anyseq.errors import CannotApproximate, InvalidArgument

Modulus = Callable[[float], float]
"""h -> ω(h), nondecreasing."""

Lipschitz = float | Sequence[float] | Modulus | Local
"""What `lipschitz=` takes: L, one L_k per feature, a modulus of continuity, or L per box."""

Curvature = float | Local
"""What `curvature=` takes: M, or M per box."""

SHELLS = 64
_SHELLS = range(1, SHELLS + 1)
TOLD_BY_BOXES = " (less in boxes, as given)"


@dataclass(frozen=True)
class Bound:
    """A number and the formula behind it."""

    value: float
    why: str


@dataclass(frozen=True)
class Smoothness:
    """What is known about f; infinite or None where nothing is.

    local_lipschitz, local_curvature: the same per box, if given so; `lipschitz` and `curvature` are
        then those of the whole cube.
    """

    lipschitz: float = math.inf
    per_feature: tuple[float, ...] | None = None
    modulus: Modulus | None = None
    curvature: float = math.inf
    local_lipschitz: Local | None = None
    local_curvature: Local | None = None

    def __str__(self) -> str:
        parts = []
        if self.per_feature is not None:
            numbers = ", ".join(f"{number:g}" for number in self.per_feature)
            parts.append(f"Lipschitz per feature ({numbers}) in the max norm over tokens")
        elif self.lipschitz < math.inf:
            told = TOLD_BY_BOXES if self.local_lipschitz else ""
            parts.append(f"{self.lipschitz:g}-Lipschitz in the max norm{told}")
        if self.modulus is not None:
            parts.append("of the given modulus of continuity in the max norm")
        if self.curvature < math.inf:
            told = TOLD_BY_BOXES if self.local_curvature else ""
            parts.append(f"of curvature at most {self.curvature:g}{told}")
        return " and ".join(parts)

    @property
    def continuous(self) -> bool:
        """Whether it bounds |f(x) - f(y)| by the distance."""
        return self.lipschitz < math.inf or self.modulus is not None

    def change(self, distance: float) -> float:
        """A bound for |f(x) - f(y)| where max|x - y| <= distance."""
        return self.lipschitz * distance if self.modulus is None else self._omega(distance)

    def variation(self, axes: int, steps: int, bound: float) -> float:
        """A bound for Σ_g |∇f(g)| over the nodes g of the grid of step δ = 1/steps, |f| <= bound.

        ∇f is the mixed difference: along each axis f less its value one node before, or less
        nothing at g_i = 0. With k of the g_i above 0, C(D,k) m^k nodes, |∇f| is at most

            2^k bound;    for k >= 1 2^(k-1) times what f changes in a step;
            for k >= 2 2^(k-2) M δ², if two of the g_i above 0 differ: the square of sides g_i-1
            to g_i and g_j-1 to g_j meets x_i = x_j in a corner at most, and x_i = x_l in a side;
            if x_l = x_k all over it, move one of them a little: f is continuous.

        All g_i above 0 are equal at C(D,k) m nodes. The sums over k are binomial. The margin is for
        the rounding of f itself.
        """
        nodes = (2.0 * steps + 1) ** axes
        known = [nodes * bound]
        rise = 2 * bound
        if self.continuous:
            rise = min(rise, self.change(1 / steps))
            known.append(bound + (nodes - 1) / 2 * rise)
        if self.curvature < math.inf:
            equal = steps * (3.0**axes - 1) / 2
            known.append(bound + equal * rise + nodes / 4 * self.curvature / steps**2)
        return float(min(known) + nodes * bound * 2.0**-48)

    def interpolation(self, tokens: int, features: int, step: float, p: float = math.inf) -> Bound:
        """The best bound for the error of Kuhn interpolation in one entry, in L^p over the cube."""
        return min(self._interpolations(tokens, features, step, p), key=lambda found: found.value)

    def off_centre(self, tokens: int, features: int, step: float, p: float = math.inf) -> Bound:
        """A bound for f against its value at the cell's centre in one entry, in L^p."""
        half, at = step / 2, f"δ = {_power(step)}"
        if self.modulus is not None:
            reached = [self._omega(half * shell / SHELLS) for shell in _SHELLS]
            value = reached[-1] if math.isinf(p) else _shells(reached, tokens * features, p)
            return Bound(value, f"the modulus at up to δ/2, {at}")
        if not self.continuous:
            raise CannotApproximate(
                "it needs a Lipschitz constant or a modulus of continuity; curvature alone bounds "
                "no difference"
            )
        axes = tokens if self.per_feature is not None else tokens * features
        share = 1.0 if math.isinf(p) else (axes / (axes + p)) ** (1 / p)
        letter = "n" if self.per_feature is not None else "D"
        formula = f"L δ/2 ({letter}/({letter}+p))^(1/p), L = {self.lipschitz:g}, {at}"
        return Bound(self.lipschitz * half * share, formula)

    def _interpolations(self, tokens: int, features: int, step: float, p: float) -> Iterator[Bound]:
        axes, at = tokens * features, f"δ = {_power(step)}"
        if self.modulus is not None:
            reached = [self._omega(step * (1 + shell / SHELLS) / 2) for shell in _SHELLS]
            yield Bound(math.fsum(reached) / SHELLS, f"the mean of the modulus over [δ/2, δ], {at}")
        elif self.per_feature is not None:
            share = 0.75 - 1 / (2 * (tokens + 1))
            why = f"ΣL_k δ(3/4 - 1/(2(n+1))), ΣL_k = {self.lipschitz:g}, {at}, n = {tokens}"
            yield Bound(self.lipschitz * share * step, why)
        else:
            share = 0.75 - 1 / (2 * (axes + 1))
            why = f"Lδ(3/4 - 1/(2(D+1))), L = {self.lipschitz:g}, {at}, D = {axes}"
            yield Bound(self.lipschitz * share * step, why)
        if self.curvature < math.inf:
            numbers = f"M = {self.curvature:g}, {at}, D = {axes}"
            yield Bound(axes * step**2 * self.curvature / 8, f"D δ² M/8, {numbers}")
            if p < math.inf:
                log_beta = 2 * math.lgamma(p + 1) - math.lgamma(2 * p + 2)
                mean = math.exp(log_beta / p)
                why = f"D δ² M/2 B(p+1,p+1)^(1/p), {numbers}"
                yield Bound(axes * step**2 * self.curvature / 2 * mean, why)

    def _omega(self, distance: float) -> float:
        assert self.modulus is not None
        try:
            value = float(self.modulus(distance))
        except Exception as problem:
            raise InvalidArgument(
                f"lipschitz: the modulus raised {type(problem).__name__} at {distance:g}: {problem}"
            ) from problem
        if not 0 <= value <= ROOM:
            raise InvalidArgument(
                f"lipschitz: the modulus is {value!r} at {distance:g}; expected a number from 0 to "
                "2^500"
            )
        return value


def _shells(reached: Sequence[float], axes: int, p: float) -> float:
    """(E ω(R)^p)^(1/p) where P(R <= r) = r^axes, each shell at its outer end."""
    top = max(reached)
    if top == 0.0:
        return 0.0
    inside = [(shell / SHELLS) ** axes for shell in range(SHELLS + 1)]
    mean = math.fsum(
        (inside[shell] - inside[shell - 1]) * (reached[shell - 1] / top) ** p for shell in _SHELLS
    )
    return float(top * mean ** (1 / p))


def _power(step: float) -> str:
    return f"2^{round(math.log2(step))}"


def size(name: str, value: object) -> float:
    """A number >= 0 that leaves room to multiply: constants of f up to 2^500."""
    number = non_negative(name, value)
    if number > ROOM:
        raise InvalidArgument(f"{name}={value!r}: expected at most 2^500; scale f down")
    return number


def given(lipschitz: object, curvature: object, tokens: int, features: int) -> Smoothness | None:
    """The smoothness given by the arguments `lipschitz` and `curvature`, or None if neither is
    given."""
    if lipschitz is None and curvature is None:
        return None
    known = _given_lipschitz(lipschitz, tokens, features)
    if isinstance(curvature, Local):
        everywhere = curvature.everywhere("curvature", tokens, features)
        return replace(known, curvature=everywhere, local_curvature=curvature)
    bend = math.inf if curvature is None else size("curvature", curvature)
    return replace(known, curvature=bend)


def _given_lipschitz(lipschitz: object, tokens: int, features: int) -> Smoothness:
    if lipschitz is None:
        return Smoothness()
    if isinstance(lipschitz, Local):
        everywhere = lipschitz.everywhere("lipschitz", tokens, features)
        return Smoothness(everywhere, local_lipschitz=lipschitz)
    if callable(lipschitz):
        known = Smoothness(modulus=lipschitz)
        _check_nondecreasing(known)
        return known
    if isinstance(lipschitz, Sequence) and not isinstance(lipschitz, str):
        parts = tuple(size(f"lipschitz[{k}]", part) for k, part in enumerate(lipschitz))
        if len(parts) != features:
            raise InvalidArgument(
                f"lipschitz={lipschitz!r}: {len(parts)} constants; expected one per feature, "
                f"{features}"
            )
        return Smoothness(size("lipschitz", math.fsum(parts)), parts)
    return Smoothness(size("lipschitz", lipschitz))


def _check_nondecreasing(known: Smoothness) -> None:
    before, at = 0.0, 0.0
    for distance in (2.0 ** (power / 4) for power in range(-160, 1)):
        value = known.change(distance)
        if value < before:
            raise InvalidArgument(
                f"lipschitz: the modulus falls from {before:g} at {at:g} to {value:g} at "
                f"{distance:g}; expected a nondecreasing function"
            )
        before, at = value, distance
