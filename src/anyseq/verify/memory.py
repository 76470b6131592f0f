"""A network that asks a memory: tokens that hold x, a memory of centres, a selector.

Tokens. Up to the memory they are affine on the cube (`anyseq.verify.forms`) and moved without
rounding: every token holds x, to the bit, in the features that the memory reads.

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
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from anyseq.nn import Stack
from anyseq.verify.constants import lipschitz, values_fit
from anyseq.verify.facts import Facts
from anyseq.verify.floats import TINY, UNIT, exact
from anyseq.verify.forms import Forms
from anyseq.verify.simplices import coordinates
from anyseq.verify.terms import Found, spread, table_fits
from anyseq.verify.verdict import Disagreement, Weights


@dataclass(frozen=True)
class Blend:
    """The function. sharpness: κ; values (N^D, tokens, out_features)."""

    facts: Facts
    sharpness: float
    values: np.ndarray

    @property
    def hard(self) -> np.ndarray:
        """Entries between two centres."""
        return np.arange(1, self.facts.steps) / self.facts.steps

    def exact(self, x: np.ndarray) -> list[list[Any]]:
        """The mean at x (tokens, features), in balls: one axis after the other."""
        from flint import arb

        steps = self.facts.steps
        left = np.vectorize(arb, otypes=[object])(self.values)
        for entry in x.reshape(-1).tolist():
            away = [(Fraction(entry) * steps - Fraction(2 * k + 1, 2)) ** 2 for k in range(steps)]
            powers = [Fraction(self.sharpness) * (min(away) - one) for one in away]
            weights = [(arb(p.numerator) / arb(p.denominator)).exp() for p in powers]
            whole = sum(weights, arb(0))
            parts = left.reshape(steps, -1, *self.values.shape[1:])
            left = sum(parts[k] * (weights[k] / whole) for k in range(steps))
        return [list(outputs) for outputs in left[0]]


def memory_network(facts: Facts, network: Stack, net: Weights, table: Weights) -> Found:
    """Read half by half."""
    values, halves, axes = table["values"], net["halves"], facts.axes
    assert facts.memory is not None
    slots_at, values_at = facts.memory
    if halves[:2].tolist() != [[0, 0], [1, 1]] or (halves[2:] >= 0).any():
        raise Disagreement("expected a layer that routes and a layer with a memory")
    if len(net["memory_key"]) != facts.steps**axes or values_at != slots_at + axes:
        raise Disagreement("the memory is of another size, or reads other features")
    tokens = Forms.entering(facts, network, net).attended(network, net, 0, 0).fed(net, 0)
    if network.shape.bos or tokens is None or not network.shape.positions:
        raise Disagreement("expected tokens alone, with vectors of positions, affine in x")
    slots = slice(slots_at, values_at)
    wanted = np.eye(axes, 1 + axes, 1)
    if (tokens.form[:, slots] != wanted).any() or tokens.off[:, slots].any():
        raise Disagreement("router: a token does not hold the whole sequence, to the bit")
    rest = np.delete(np.arange(network.shape.width), np.arange(slots_at, values_at))
    if (
        tokens.moves[:, rest].any()
        or tokens.form[:, rest][:, _outputs(rest, facts, values_at)].any()
    ):
        raise Disagreement("router: something but the slots depends on x, or is where outputs go")
    beta = _sharpness(facts, net["memory_key"])
    if not np.array_equal(net["memory_value"], values.reshape(len(values), -1)):
        raise Disagreement("memory: a value is not the table's")
    largest = float(np.abs(values).max())
    constant = _selector(facts, net, tokens.form[..., 0], slots, 1.5 * largest)
    blend = Blend(facts, beta / facts.steps**2, values)
    score = UNIT * ((axes + 1) * float(np.abs(net["memory_key"]).sum(1).max()) + beta * axes)
    sums = (2 * len(values) + 4) * max(largest, TINY) + 4 * (constant + 2 * largest)
    terms = _error(facts, blend.sharpness, score, UNIT * sums * (largest > 0))

    def error() -> dict[tuple[str, str], float]:
        off = terms["rounding"]
        table_fits(facts, values, off)
        values_fit(facts, values.reshape(*[facts.steps] * axes, -1), 2 * off)
        return {(name, "cells"): value * spread(facts) for name, value in terms.items()}

    text = (
        f"router, {len(values):,} centres with β = {beta:g}, values and selector, read from the "
        "weights"
    )
    return Found(text, error, terms["rounding"], mean=blend)


def _outputs(rest: np.ndarray, facts: Facts, values_at: int) -> np.ndarray:
    """Features that outputs or what is recalled are added to."""
    recalled = (rest >= values_at) & (rest < values_at + facts.tokens * facts.out_features)
    return np.asarray((rest < facts.out_features) | recalled)


def _sharpness(facts: Facts, key: np.ndarray) -> float:
    """β, a power of two: then 4N²/β times the keys are whole numbers, without rounding."""
    steps = facts.steps
    beta = float(key[0, 0]) * steps
    if not (beta > 0 and np.log2(beta) % 1 == 0 and np.log2(steps) % 1 == 0):
        raise Disagreement("memory: its width is not a power of two")
    odd = 2 * coordinates(np.arange(len(key)), steps, facts.axes) + 1
    wanted = np.concatenate([4 * steps * odd, -(odd**2).sum(1, keepdims=True)], axis=1)
    if not np.array_equal(key * (4 * steps**2 / beta), wanted):
        raise Disagreement("memory: a key is not that of its centre")
    return beta


def _selector(facts: Facts, net: Weights, before: np.ndarray, slots: slice, reach: float) -> float:
    """Its largest constant. before: what tokens hold besides x, a number each; reach: no mean of
    values is larger."""
    count = facts.out_features
    down, shift = net["down_weight"][1][:count], net["down_bias"][1][:count]
    used = down.any(0)
    up, bias, down = net["up_weight"][1][used], net["up_bias"][1][used], down[:, used]
    own = slice(slots.stop, slots.stop + facts.tokens * count)
    reads, held = up[:, own], up.copy()
    held[:, own] = 0.0
    if up[:, slots].any():
        raise Disagreement("selector: it reads x")
    move = np.abs(reads).sum(1) * reach
    for token, constant in enumerate(exact(before, held, bias)):
        on = constant >= move
        if not (on | (constant <= -move)).all():
            raise Disagreement("selector: a unit that is neither on nor off throughout")
        wanted = np.eye(facts.tokens * count)[token * count : (token + 1) * count]
        if not np.array_equal(down[:, on] @ reads[on], wanted):
            raise Disagreement(f"selector: token {token} does not take its own output")
        if (down[:, on] @ constant[on] + shift).any():
            raise Disagreement("selector: its constants do not cancel")
        for weight in (reads[on], down[:, on]):
            if ((weight != 0).sum(1) > 1).any() or not np.isin(weight, (-1.0, 0.0, 1.0)).all():
                raise Disagreement("selector: it adds or scales numbers where it should move them")
    return float(max(np.abs(part).max() for part in (bias, held, shift)))


def _error(facts: Facts, kappa: float, score: float, sums: float) -> dict[str, float]:
    """Of one entry. score: ε. sums: what norming, sums and selector round."""
    if kappa < 1:
        raise Disagreement(f"memory: κ = {kappa:g} is too flat")
    low, high = 1.0, 2.0  # e^z (z-1) rises
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if math.exp(middle) * (middle - 1) < 1 else (low, middle)
    ahead = sum((k - 0.5) * math.exp(-kappa * k * k) for k in range(1, facts.steps))
    behind = sum((k - 1) * math.exp(-kappa * k * (k - 1)) for k in range(2, facts.steps))
    cell = lipschitz(facts) / facts.steps
    # what |k| has above 1 is less than these, and the second nearest has none
    moved = math.expm1(2 * score + 8 * UNIT) * cell * (1 + facts.axes * (ahead + behind))
    return {
        "blending": cell * (0.5 + facts.axes * ((high - 1) / (2 * kappa) + ahead + behind)),
        "rounding": moved + sums,
    }
