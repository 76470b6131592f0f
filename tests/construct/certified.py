"""Certified results of every method, with the functions that they approximate."""

from __future__ import annotations

from typing import Any

import torch

import anyseq as aq
from anyseq.construct import Approximation
from anyseq.construct.request.functions import FUNCTIONS

MEAN, SPIKE = FUNCTIONS["plus-mean"], aq.functions["spike"]
NOWHERE = aq.NoPosition()
ANY_ORDER = aq.Design(2, position=NOWHERE)


def build(
    f: Any, design: aq.Design, features: int, tol: float, norm: str, method: str, **known: Any
) -> tuple[Any, Approximation]:
    given: dict[str, Any] = {"features": features, "tol": tol, "norm": norm, "method": method}
    return f, aq.approximate(f, design, **given, **known)


def wave(x: torch.Tensor) -> torch.Tensor:
    """It rises along one entry of a token and falls along the other."""
    return (3 * (x[..., :1] - x[..., 1:])).sin()


def saddle(x: torch.Tensor) -> torch.Tensor:
    """It does not bend along any axis."""
    return 4 * x[..., :1] * x[..., 1:]


def pairs(x: torch.Tensor) -> torch.Tensor:
    """Σ_(i<j) x_i x_j / 2: its curvature is (D-1)/2, and all second derivatives are 1/2 or 0."""
    whole = x.sum(1, keepdim=True)
    return ((whole.square() - x.square().sum(1, keepdim=True)) / 4).expand_as(x)


def level(x: torch.Tensor) -> torch.Tensor:
    return x.sum(1, keepdim=True).expand_as(x) / 2


CASES: dict[str, tuple[Any, Approximation]] = {
    "gather": build(wave, aq.Design(1), 2, 0.5, "sup", "gather", lipschitz=6.0),
    "identity": build(lambda x: x, aq.Design(1), 1, 2.0**-11, "sup", "gather", lipschitz=1.0),
    "tokens": build(MEAN, aq.Design(2), 1, 0.5, "sup", "gather", lipschitz=2.0),
    "per feature": build(wave, aq.Design(1), 2, 0.5, "sup", "gather", lipschitz=[3.0, 3.0]),
    "modulus": build(wave, aq.Design(1), 2, 0.5, "sup", "gather", lipschitz=lambda h: 6 * h),
    "saddle": build(saddle, aq.Design(1), 2, 0.3, "sup", "gather", curvature=4.0),
    "pairs": build(pairs, aq.Design(5), 1, 0.4, "sup", "gather", curvature=2.0),
    "wide": build(level, aq.Design(2, depth=2), 1, 0.9, "sup", "gather", lipschitz=1.0),
    "adaptive": build(
        SPIKE, aq.Design(2), 1, 0.05, "sup", "gather",
        lipschitz=SPIKE.local_lipschitz, curvature=SPIKE.local_curvature,
    ),
    "yun": build(FUNCTIONS["sort"], aq.Design(2), 1, 0.5, "lp", "yun", lipschitz=1.0),
    "yun, modulus": build(
        FUNCTIONS["sort"], aq.Design(2), 1, 0.5, "lp", "yun", lipschitz=lambda h: h
    ),
    "yun, window": build(
        FUNCTIONS["sort"], aq.Design(2, aq.Window(1)), 1, 0.5, "lp", "yun", lipschitz=1.0
    ),
    "yun, no order": build(MEAN, ANY_ORDER, 1, 1.0, "lp", "yun", lipschitz=2.0),
    "yun, no order, hardmax": build(
        MEAN, aq.Design(2, position=NOWHERE, prob_map="hardmax"), 1, 1.0, "lp", "yun", lipschitz=2.0
    ),
    "sum": build(MEAN, ANY_ORDER, 1, 0.9, "sup", "sum", lipschitz=2.0),
    "partition": build(MEAN, aq.Design(2), 1, 0.9, "lp", "partition", lipschitz=2.0),
    "boltzmann": build(MEAN, ANY_ORDER, 1, 0.9, "lp", "boltzmann", lipschitz=2.0),
    "rounds": build(
        FUNCTIONS["sort"], aq.Design(2, position=aq.Rotary()), 1, 0.9, "lp", "boltzmann",
        lipschitz=1.0,
    ),
}  # fmt: skip

FUNCTION = {name: f for name, (f, _) in CASES.items()}
RESULTS = {name: result for name, (_, result) in CASES.items()}
