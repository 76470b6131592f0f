"""A layer of random heads that read numbers, and how far rounding can move what they bring.

Every position holds a whole number a, from 0 to A, and a constant feature 1. With P > A a power of
two, a head has a constant query, keys κ a/P + κ_1, values ν a/P + ν_1, and random biases, gains and
sinks where the design has them; a random combination of the heads, `mixed`, is what they bring.

Rounding. Let S bound the scores of a head, V its values times gains, and let it attend to n keys of
size m. In any order of summation a score is off by e <= 4(n+m+4)(1+S)u, u = 2^-53 (for Rotary
angles are off by nu). Softmax weights are then off by the factor exp(±2e), and a few u of their
own; weights of sparsemax, a projection, by at most ne in sum, and those of entmax15, whose
derivative is diag(√p) - √p √pᵀ/Σ√p, by 2√n e. Either is below 64(n+m+8)(1+S)u while n <= 16; for
more keys n/16 times that. So a head's output is off by at most V times as much.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

import torch

from anyseq.base import UNIT_ROUNDOFF, power_of_two_at_least
from anyseq.construct.gathering import GAIN, Heads, base_of
from anyseq.design import Design
from anyseq.nn import AttentionLayers
from anyseq.positions import ALiBi, Rotary, Shaw
from anyseq.probability import Softmax, TopK

_HEADS = 4  # for each pattern of a layer


@dataclass(frozen=True)
class Wires:
    """Features: the number, the constant 1, and where heads bring `mixed`."""

    number_at: int
    one_at: int
    mixed_at: int


def refining_heads(design: Design) -> Heads:
    """A few heads for each pattern of a layer."""
    period = lcm(*(len(pattern.heads()) for pattern in design.cycle))
    count = _HEADS * period
    size = 2 if isinstance(base_of(design.position), Rotary | Shaw) else 1
    return Heads(design, period=period, tellers=count, count=count, size=size)


def draw_layer(
    heads: Heads, wires: Wires, width: int, top: int, rng: torch.Generator
) -> AttentionLayers:
    """One layer for numbers from 0 to `top`."""
    layer = heads.blank(width)
    scale = power_of_two_at_least(top + 1.0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=rng, dtype=torch.float64)

    def spread() -> float:
        """Close scores share the weight even in sparse maps; distant ones do not."""
        soft = isinstance(heads.design.probability, Softmax | TopK)
        return 1.0 if soft else 2.0 ** -float(4 * torch.rand((), generator=rng))

    for head in range(heads.count):
        rows = heads.rows(head)
        layer.q_bias[0, rows] = draw(heads.size) if heads.size > 1 else 1.0
        layer.k_weight[0, rows, wires.number_at] = spread() / scale * draw(heads.size)
        layer.k_weight[0, rows, wires.one_at] = draw(heads.size)
        layer.v_weight[0, rows, wires.number_at] = draw(heads.size) / scale
        layer.v_weight[0, rows, wires.one_at] = draw(heads.size)
        layer.o_weight[0, wires.mixed_at, rows] = draw(heads.size)
    for name, table in layer.inside.items():
        table.copy_((spread() if _is_score(name) else 1.0) * draw(*table.shape))
    if layer.sink is not None:
        layer.sink.copy_(draw(*layer.sink.shape))
    return layer


def rounding(
    heads: Heads, wires: Wires, layer: AttentionLayers, gain: torch.Tensor | None, top: int
) -> float:
    """How far `mixed` can be off, for numbers from 0 to `top`."""
    base, vertices = base_of(heads.design.position), heads.vertices
    tables = {name: float(table.abs().max()) for name, table in layer.inside.items()}
    biases = sum(size for name, size in tables.items() if _is_score(name) and "keys" not in name)
    biases += vertices if isinstance(base, ALiBi) else 0.0
    biases += 0.0 if layer.sink is None else float(layer.sink.abs().max())
    keys = sum(size for name, size in tables.items() if name.endswith("keys"))
    added = sum(size for name, size in tables.items() if name.endswith("values"))
    gains = tables.get(GAIN, 1.0) * (1.0 if gain is None else max(1.0, float(gain.abs().max())))
    total = 0.0
    for head in range(heads.count):
        rows = heads.rows(head)

        def largest(weight: torch.Tensor, rows: slice = rows) -> torch.Tensor:
            part = weight[0, rows].abs()
            return part[:, wires.number_at] * top + part[:, wires.one_at]

        query = float(layer.q_bias[0, rows].norm())
        score = query * (float(largest(layer.k_weight).norm()) + keys * heads.size**0.5) + biases
        value = (largest(layer.v_weight) + added) @ layer.o_weight[0, wires.mixed_at, rows].abs()
        total += float(value) * max(1.0, gains) * (1 + score)
    crowd = max(1.0, vertices / 16)
    return 64 * crowd * (vertices + heads.size + 8) * UNIT_ROUNDOFF * total


def _is_score(name: str) -> bool:
    """Whether a table of a position is added to scores, not to values or weights."""
    return name == "table" or name.endswith(("base.table", "keys"))
