"""Method "partition", read from its weights: a router, a memory of centres, a selector.

Router. `read_front` proves it on the cube: with all its corners instead of those of a simplex, the
same argument says that the layer is affine on the whole cube. No row of its weights adds two
numbers, so float64 makes no error: every token holds x, to the bit, in its slots.

Memory. The keys must be β(2c, -|c|²) for the centres c in order, as whole numbers say; so a token
takes the mean of the table under the law of G, whose D entries are independent, with weights
exp(-κ(y-k)²), y = Nx - 1/2, k = 0, ..., N-1, κ = β/N².

Selector. For |F| <= R every unit is on throughout or off throughout, and what is on adds up to the
own F.

Error. |f - T| <= L E max |x - G|, and a maximum is at most 1/2 plus all that is above 1/2, in units
of δ. Let the nearest k be t away from y, z = κ(1-2t). Above 1/2 lies, in the mean,

- of the second nearest z/(1+e^z)/(2κ) at most. Where the derivative is 0, e^z (z-1) = 1, so that
  this is (z-1)/(2κ): the root is bracketed by bisection;
- of those k+t away, k >= 1, at most (k+t-1/2) e^(-κ(k²+2kt)), which falls in t if κ >= 1: t = 0;
- of those k-t away, k >= 2, at most (k-t-1/2) e^(-κ(k²-2kt)), which rises: t = 1/2.

Rounding. A score is a sum of D+1 products: it is off by (D+1)u times the sum of their sizes, read
from the keys, and its distance from the largest by u of itself: ε together. Weights that add up to
1 are then off by factors e^(±2(ε+4u)), exp being good to 4u, and since they move f(G) - f(nearest),
of mean size Lδ E max|k|, so much is lost. Norming and summing M products rounds by (2M+4)u of the
largest |f|, the selector four times at the size of its constants.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import torch

from anyseq.construct.network.memory import MemoryShape
from anyseq.construct.verifiers.claim import Claim
from anyseq.construct.verifiers.verify_front import Layout, Weights, read_front, readable
from anyseq.construct.verifiers.verify_terms import Disagreement, lipschitz
from anyseq.nn import Stack

_UNIT = 2.0**-53


@dataclass(frozen=True)
class Blend:
    """What the network computes. sharpness: κ; values (N^D, tokens, out_features)."""

    claim: Claim
    sharpness: float
    values: np.ndarray

    @property
    def hard(self) -> np.ndarray:
        """Entries between two centres."""
        return np.arange(1, self.claim.steps) / self.claim.steps

    def exact(self, x: np.ndarray) -> list[list[Any]]:
        """The mean at x (tokens, features), in balls: one axis after the other."""
        from flint import arb

        steps = self.claim.steps
        left = np.vectorize(arb, otypes=[object])(self.values)
        for entry in x.reshape(-1).tolist():
            away = [(Fraction(entry) * steps - Fraction(2 * k + 1, 2)) ** 2 for k in range(steps)]
            powers = [Fraction(self.sharpness) * (min(away) - one) for one in away]
            weights = [(arb(p.numerator) / arb(p.denominator)).exp() for p in powers]
            whole = sum(weights, arb(0))
            parts = left.reshape(steps, -1, *self.values.shape[1:])
            left = sum(parts[k] * (weights[k] / whole) for k in range(steps))
        return [list(outputs) for outputs in left[0]]


def partition_network(
    claim: Claim, network: Stack, net: Weights, table: Mapping[str, torch.Tensor]
) -> tuple[str, dict[str, float], Blend]:
    """What was found; the blending and the rounding of one entry; the function."""
    shape, layout = network.shape, Layout.of(claim, network)
    axes, values = claim.tokens * claim.features, table["values"].numpy()
    if not readable(claim, network) or shape.bos:
        raise Disagreement("expected tokens alone, and vectors of positions added to them")
    busy, idle = net["halves"][:2].tolist(), net["halves"][2:]
    if not isinstance(shape, MemoryShape) or busy != [[0, 0], [1, 1]] or (idle >= 0).any():
        raise Disagreement("expected a layer that routes and a layer with a memory")
    if (shape.slots_at, len(net["memory_key"])) != (layout.slots_at, claim.steps**axes):
        raise Disagreement("the memory is of another size, or reads other features")
    _router(claim, network, net)
    beta = _sharpness(claim, net["memory_key"], axes)
    if not np.array_equal(net["memory_value"], values.reshape(len(values), -1)):
        raise Disagreement("memory: a value is not the table's")
    largest = float(np.abs(values).max())
    constant = _selector(claim, net, layout, shape.values_at, 1.5 * largest)
    blend = Blend(claim, beta / claim.steps**2, values)
    sizes = float(np.abs(net["memory_key"]).sum(1).max())
    summed = (2 * len(values) + 4) * max(largest, 2.0**-960) + 4 * (constant + 2 * largest)
    text = (
        f"router, {len(values):,} centres with β = {beta:g}, values and selector, read from the "
        "weights"
    )
    score = _UNIT * ((axes + 1) * sizes + beta * axes)
    return text, _error(claim, blend, score, _UNIT * summed * (largest > 0)), blend


def _router(claim: Claim, network: Stack, net: Weights) -> None:
    axes = claim.tokens * claim.features
    cube = np.array(list(product((0.0, 1.0), repeat=axes)))
    alone = net | {"halves": np.array([[0, 0], [-1, -1]])}
    front = read_front(claim, network, alone, cube, np.arange(len(cube))[None])
    slots_at = Layout.of(claim, network).slots_at
    if (front.states[..., slots_at : slots_at + axes] != cube[:, None]).any():
        raise Disagreement("router: a token does not hold the whole sequence")
    up, down = net["up_weight"][0], net["down_weight"][0]
    if net["up_bias"][0].any() or net["down_bias"][0].any():
        raise Disagreement("router: its feed-forward half adds constants")
    # no state is negative, so with one number in a row its sign says whether the unit is on
    for weight in (net["v_weight"][0], net["o_weight"][0], up, down[:, (up > 0).any(1)]):
        _one_number_a_row(weight, "router")


def _one_number_a_row(weight: np.ndarray, where: str) -> None:
    if ((weight != 0).sum(1) > 1).any() or not np.isin(weight, (-1.0, 0.0, 1.0)).all():
        raise Disagreement(f"{where}: it adds or scales numbers where it should move them")


def _sharpness(claim: Claim, key: np.ndarray, axes: int) -> float:
    """β, a power of two: then 4N²/β times the keys are whole numbers, without rounding."""
    steps = claim.steps
    beta = float(key[0, 0]) * steps
    if not (beta > 0 and np.log2(beta) % 1 == 0 and np.log2(steps) % 1 == 0):
        raise Disagreement("memory: its width is not a power of two")
    number = np.arange(steps**axes)
    odd = np.stack(
        [2 * (number // steps ** (axes - 1 - axis) % steps) + 1 for axis in range(axes)], axis=1
    )
    wanted = np.concatenate([4 * steps * odd, -(odd**2).sum(1, keepdims=True)], axis=1)
    if not np.array_equal(key * (4 * steps**2 / beta), wanted):
        raise Disagreement("memory: a key is not that of its centre")
    return beta


def _selector(claim: Claim, net: Weights, layout: Layout, values_at: int, reach: float) -> float:
    """Its largest constant. reach: no mean of values is larger."""
    count = claim.out_features
    down, shift = net["down_weight"][1][:count], net["down_bias"][1][:count]
    used = down.any(0)
    if net["up_weight"][1][~used].any() or net["up_bias"][1][~used].any():
        raise Disagreement("selector: a unit that is not used is on")
    up, bias, down = net["up_weight"][1][used], net["up_bias"][1][used], down[:, used]
    reads = up[:, values_at : values_at + claim.tokens * count]
    if up[:, layout.slots_at : values_at].any() or up[:, : layout.places_at].any():
        raise Disagreement("selector: it reads x")
    places = up[:, layout.places_at : layout.slots_at]
    move = np.abs(reads).sum(1) * reach
    for token in range(claim.tokens):
        constant = bias + places[:, token]
        on = constant >= move
        if not (on | (constant <= -move)).all():
            raise Disagreement("selector: a unit that is neither on nor off throughout")
        own = np.eye(claim.tokens * count)[token * count : (token + 1) * count]
        if not np.array_equal(down[:, on] @ reads[on], own):
            raise Disagreement(f"selector: token {token} does not take its own output")
        if (down[:, on] @ constant[on] + shift).any():
            raise Disagreement("selector: its constants do not cancel")
        for weight in (reads[on], down[:, on]):
            _one_number_a_row(weight, "selector")
    return float(max(np.abs(part).max() for part in (bias, places, shift)))


def _error(claim: Claim, blend: Blend, score: float, sums: float) -> dict[str, float]:
    """score: ε. sums: what norming, sums and selector round."""
    kappa, axes = blend.sharpness, claim.tokens * claim.features
    if kappa < 1:
        raise Disagreement(f"memory: κ = {kappa:g} is too flat")
    low, high = 1.0, 2.0  # e^z (z-1) rises
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if math.exp(middle) * (middle - 1) < 1 else (low, middle)
    ahead = sum((k - 0.5) * math.exp(-kappa * k * k) for k in range(1, claim.steps))
    behind = sum((k - 1) * math.exp(-kappa * k * (k - 1)) for k in range(2, claim.steps))
    cell = lipschitz(claim) / claim.steps
    # what |k| has above 1 is less than these, and the second nearest has none
    moved = math.expm1(2 * score + 8 * _UNIT) * cell * (1 + axes * (ahead + behind))
    return {
        "blending": cell * (0.5 + axes * ((high - 1) / (2 * kappa) + ahead + behind)),
        "rounding": moved + sums,
    }
