"""Positions from URPE's gain (Luo et al. 2022): no vector is added to any token.

A constant channel holds 1/2 in every token. One head with queries and keys 0 has equal weights on
all keys of a token, times the gain C_{i-j}; with value 2·channel it adds to the channel

    Σ_{j in A_i} C_{i-j} / |A_i| = E_i

for the gains that `gains_for` finds. With dense attention and E_i = i they are the paper's lower
triangle: C_k = n for k > 0, else 0. Sums like 3·(1/3) may round: the channel is near E_i + 1/2, in
the middle of the cell [E_i, E_i + 1), and a quantiser of step 1 makes it E_i, exactly. One more
layer adds it to the token's features, and clears the channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import torch

from anyseq.construct.gadgets.blank import blank_attention, blank_feed_forward
from anyseq.construct.gadgets.quantise import narrowest_ramp, quantise
from anyseq.nn import AttentionLayers, Layers

CONSTANT = 0.5
"""What the channel holds at first."""


def gains_for(mask: torch.Tensor, wanted: Sequence[int]) -> list[Fraction] | None:
    """C for the offsets 1-n, ..., n-1, or None if there are none: the gain cannot distinguish
    tokens.

    n equations in 2n-1 unknowns, by elimination. Unknowns of the largest offsets are solved for
    first, and those left over are 0: that gives the lower triangle where that suffices.
    """
    tokens = len(wanted)
    system = []
    for i, row in enumerate(mask.tolist()):
        seen = {i - j for j, sees in enumerate(row) if sees}
        entries = [Fraction(offset in seen) for offset in range(tokens - 1, -tokens, -1)]
        system.append([*entries, Fraction(len(seen) * wanted[i])])
    gains = [Fraction(0)] * (2 * tokens - 1)
    done: list[tuple[int, list[Fraction]]] = []
    for column in range(2 * tokens - 1):
        pivot = next((row for row in system if row[column]), None)
        if pivot is None:
            continue
        system.remove(pivot)
        system = [_without(row, pivot, column) for row in system]
        done.append((column, pivot))
    if any(row[-1] for row in system):
        return None
    for column, row in reversed(done):
        rest = sum((a * b for a, b in zip(row[:-1], gains, strict=True)), Fraction(0))
        gains[column] = (row[-1] - rest) / row[column]
    return gains[::-1]


def _without(row: list[Fraction], pivot: list[Fraction], column: int) -> list[Fraction]:
    factor = row[column] / pivot[column]
    return [a - factor * b for a, b in zip(row, pivot, strict=True)]


def positions_from_gain(*, heads: int, head: int, width: int, at: int) -> AttentionLayers:
    """One layer: `head`, whose gain is that of `gains_for`, sums channel `at`."""
    attention = blank_attention(1, heads=heads, size=1, width=width)
    attention.v_weight[0, head, at] = 1 / CONSTANT
    attention.o_weight[0, at, head] = 1.0
    return attention


def settle_layers(tokens: int) -> int:
    """How many layers `settle` has."""
    return tokens + 1


def settle(*, tokens: int, features: int, width: int, at: int) -> list[Layers]:
    """The channel becomes a whole number, and moves into features 0, ..., features-1."""
    ramp = narrowest_ramp(tokens)
    rounding = quantise(features=1, width=width, cells=tokens, step=1.0, ramp=ramp, first=at)
    move = blank_feed_forward(1, 4, width)
    move.up_weight[0, 0, at] = 1.0
    move.down_weight[0, :features, 0] = 1.0
    move.down_weight[0, at, 0] = -1.0
    return [rounding, Layers(feedforward=move)]
