"""Functions to try things on, each with its Lipschitz constant in the max norm, and why; and with
its curvature: a bound for the spectral norm of every entry's Hessian where no two x are equal.

x is (batch, tokens, features) in [0, 1]. Tokens are i = 0..n-1; max and sums over tokens are taken
feature by feature unless said otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from anyseq.construct.request.local import Local
from anyseq.construct.request.smooth import Curvature, Lipschitz
from anyseq.construct.request.target import Function


@dataclass(frozen=True)
class Example:
    """A function with proved constants for n tokens of d features.

    curvature: None for functions with kinks elsewhere than at x_i = x_j.
    equivariant: permuting the tokens permutes the outputs.
    local_lipschitz, local_curvature: both given per box, for functions with a local feature.
    """

    name: str
    text: str
    f: Function
    lipschitz: Callable[[int, int], float]
    equivariant: bool
    curvature: Callable[[int, int], float] | None = None
    local_lipschitz: Local | None = None
    local_curvature: Local | None = None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.f(x)

    def constants(self, tokens: int, features: int) -> tuple[Lipschitz, Curvature | None]:
        """Both, box by box if they are known so; a curvature only where there is one."""
        bend = self.curvature
        return (
            self.local_lipschitz or self.lipschitz(tokens, features),
            self.local_curvature or (None if bend is None else bend(tokens, features)),
        )


def _sort(x: torch.Tensor) -> torch.Tensor:
    return x.sort(dim=1).values


def _prefix_mean(x: torch.Tensor) -> torch.Tensor:
    count = torch.arange(1, x.shape[1] + 1, dtype=x.dtype, device=x.device)
    return x.cumsum(1) / count[:, None]


def _attention(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ x.transpose(1, 2), dim=-1) @ x


def _kuramoto(x: torch.Tensor) -> torch.Tensor:
    ahead = x[:, None, :] - x[:, :, None]  # [i, j] is x_j - x_i
    return x + 0.5 * torch.sin(2 * math.pi * ahead).mean(2)


def cosine(k: int) -> Example:
    """cos(πkΣx), the sum over all entries: |Σx - Σy| <= nd max|x-y|, times πk.

    Its Hessian is (πk)² cos(...) times the matrix of ones, whose norm is nd.
    """
    return Example(
        "cosine" if k == 1 else f"cosine-{k}",
        f"cos({'' if k == 1 else k}πΣx)",
        lambda x: torch.cos(math.pi * k * x.sum((1, 2), keepdim=True)).expand_as(x),
        lambda n, d: math.pi * k * n * d,
        equivariant=True,
        curvature=lambda n, d: (math.pi * k) ** 2 * n * d,
    )


def gaussian(name: str, text: str, k: float, centre: float) -> Example:
    """exp(-k r²), r the distance from a point with all coordinates equal.

    Its gradient, 2kr exp(-kr²) long, is longest at r = 1/√(2k), √(2k/e), and its entries sum to at
    most √(nd) times that. With t = kr² its Hessian has the eigenvalues -2k exp(-t), largest at 0,
    and 2k(2t - 1) exp(-t): smaller than that for t < 1/2, then largest at t = 3/2. On a box the
    same holds for the r that it has.
    """

    def distances(lower: torch.Tensor, upper: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(boxes,): the least and the largest r."""
        inside = (lower - centre).clamp(min=0) + (centre - upper).clamp(min=0)
        corner = torch.maximum((lower - centre).abs(), (upper - centre).abs())
        return inside.flatten(1).norm(dim=1), corner.flatten(1).norm(dim=1)

    def slope(lower: torch.Tensor, upper: torch.Tensor) -> torch.Tensor:
        near, far = distances(lower, upper)
        r = torch.minimum(near.clamp(min=1 / math.sqrt(2 * k)), far)
        rate = 2 * k * r * torch.exp(-k * r.square())
        return rate * math.sqrt(lower[0].numel()) * _OUTWARD

    def bend(lower: torch.Tensor, upper: torch.Tensor) -> torch.Tensor:
        near, far = (k * r.square() for r in distances(lower, upper))
        t = torch.minimum(near.clamp(min=1.5), far)
        along = (2 * t - 1) * torch.exp(-t)
        return 2 * k * torch.maximum(torch.exp(-near), along) * _OUTWARD

    return Example(
        name,
        text,
        lambda x: torch.exp(-k * (x - centre).square().sum((1, 2), keepdim=True)).expand_as(x),
        lambda n, d: math.sqrt(2 * k * n * d / math.e),
        equivariant=True,
        curvature=lambda n, d: 2 * k,
        local_lipschitz=Local(slope),
        local_curvature=Local(bend),
    )


_OUTWARD = 1 + 2.0**-40  # more than float64 makes of a distance, a square and an exponential

_ALL = (
    # The k-th smallest of n numbers moves by no more than the numbers do. While their order stays
    # it is one and the same of them.
    Example(
        "sort",
        "tokens in ascending order",
        _sort,
        lambda n, d: 1.0,
        equivariant=False,
        curvature=lambda n, d: 0.0,
    ),
    Example(
        "reverse",
        "x_{n-1-i}",
        lambda x: x.flip(1),
        lambda n, d: 1.0,
        equivariant=False,
        curvature=lambda n, d: 0.0,
    ),
    Example(
        "running-max",
        "max_{j<=i} x_j",
        lambda x: x.cummax(1).values,
        lambda n, d: 1.0,
        equivariant=False,
        curvature=lambda n, d: 0.0,
    ),
    Example(
        "prefix-mean",
        "mean_{j<=i} x_j",
        _prefix_mean,
        lambda n, d: 1.0,
        equivariant=False,
        curvature=lambda n, d: 0.0,
    ),
    # |ab - a'b'| <= |a - a'| + |b - b'| for numbers in [0, 1]. While the order stays it is x_i x_j
    # for one j: the Hessian has eigenvalues ±1, or 2 if j = i.
    Example(
        "times-max",
        "x_i max_j x_j",
        lambda x: x * x.amax(1, keepdim=True),
        lambda n, d: 2.0,
        True,
        curvature=lambda n, d: 2.0,
    ),
    cosine(1),
    Example(
        "waves",
        "sin(2πΣ_{j<=i} x_j)",
        lambda x: torch.sin(2 * math.pi * x.cumsum(1)),
        lambda n, d: 2 * math.pi * n,
        equivariant=False,
        # (2π)² sin(...) times a matrix of ones in at most n entries
        curvature=lambda n, d: (2 * math.pi) ** 2 * n,
    ),
    # Values move by at most h. Scores x_i·x_j move by at most 2dh, and Σ p_j v_j moves by at most
    # E|v - mean v| <= 1/2 per unit of score, so by dh.
    # Curvature: along a unit vector u, with a_j = x_jk, a'_j = u_jk, scores s_j = x_i·x_j,
    # s'_j = u_i·x_j + x_i·u_j, s''_j = 2u_i·u_j, the mean E a under the weights has
    #     (E a)'' = 2 Cov(a', s') + Cov(a, s'') + E[(a - E a)(s' - E s')²],
    # and |a'| <= 1, |s'| <= 2√d, |s''| <= 2, a in [0, 1]: at most 4√d + 1 + 4d.
    Example(
        "attention",
        "softmax(x x^T) x",
        _attention,
        lambda n, d: 1.0 + d,
        equivariant=True,
        curvature=lambda n, d: 4 * math.sqrt(d) + 1 + 4 * d,
    ),
    Example(
        "plus-mean",
        "x_i + mean_j x_j",
        lambda x: x + x.mean(1, keepdim=True),
        lambda n, d: 2.0,
        True,
        curvature=lambda n, d: 0.0,
    ),
    # The gradient of mean_j x_j² has entries 2x_j/n, its Hessian is 2/n times the unit matrix.
    Example(
        "mean-square",
        "mean_j x_j²",
        lambda x: x.square().mean(1, keepdim=True).expand_as(x),
        lambda n, d: 2.0,
        True,
        curvature=lambda n, d: 2.0 / n,
    ),
    # |ab - a'b'| <= |a - a'| + |b - b'|; the Hessian of ab has eigenvalues ±1.
    Example(
        "neighbours",
        "x_i x_{i+1}, the last token stays",
        lambda x: torch.cat([x[:, :-1] * x[:, 1:], x[:, -1:]], dim=1),
        lambda n, d: 2.0,
        False,
        curvature=lambda n, d: 1.0,
    ),
    gaussian("bump", "exp(-8 |x - 1/2|²)", 8.0, 0.5),
    gaussian("spike", "exp(-200 |x - 1/3|²)", 200.0, 1 / 3),
    # One step dt = 1/2 of coupled phases (K = 1, a turn is 1). Where all inputs move by at most h,
    # x_j - x_i moves by at most 2h, its sine by 4πh, and n-1 of the n sines can move: in all
    # h + (1/2)(n-1)/n 4πh. It is attained where all sines have slope -2π. The Hessian of entry i is
    # a sum over j of -(2π)²/(2n) sin(...) (e_j - e_i)(e_j - e_i)^T; without the sines that is a
    # multiple of the Laplacian of a star, whose largest eigenvalue is n.
    Example(
        "kuramoto",
        "x_i + mean_j sin(2π(x_j - x_i))/2",
        _kuramoto,
        lambda n, d: 1.0 + 2 * math.pi * (n - 1) / n,
        True,
        curvature=lambda n, d: 2 * math.pi**2,
    ),
)

FUNCTIONS = {example.name: example for example in _ALL}


def known_constants(
    f: object,
    tokens: int,
    features: int,
    lipschitz: Lipschitz | None,
    curvature: Curvature | None,
) -> tuple[Lipschitz | None, Curvature | None]:
    """What the caller says of f; if that is nothing, what f itself knows, if it is one of these."""
    if lipschitz is None and curvature is None and isinstance(f, Example):
        return f.constants(tokens, features)
    return lipschitz, curvature
