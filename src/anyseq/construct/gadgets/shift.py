"""Selective shifts, global shift, all-max-shift: attention that turns ids into contextual ids.

Notation as in `anyseq.construct.contextual.mapping`; ids are multiples of δ. Keys and values of a
head of size 1 are u·z_j, its query is λ(u·z_i - b). With hard attention it returns

    the largest id that token i attends to, where own id > b;   the smallest, where own id < b.

Selective shift at g: two heads, b = g - δ/2 and b = g + δ/2, with outputs +c and -c into feature 0.
They cancel, exactly, for every token but those with id g, which gain c(max - min).

Attention is hard here: different keys differ by at least δ, and |u·z_i - b| >= δ/2, so scores
differ by at least λδ²/2. λ is the power of two that makes this the gap at which the probability map
gives losers a weight of exactly 0 (`deciding_gap`). Equal keys are equal values, and do no harm.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from anyseq.construct.gadgets.blank import blank_attention, blank_feed_forward, closed
from anyseq.nn import Layers


def selective_shifts(
    *, windows: Sequence[int], step: float, digits: Sequence[int], shift: int, gap: float
) -> Layers:
    """One layer per window g (in units of δ), upward: ids equal to g grow by shift·(max - min)."""
    direction = torch.tensor(digits, dtype=torch.float64)
    layers = blank_attention(len(windows), heads=2, size=1, width=len(digits))
    sharp = gap * 2 / step**2
    at = torch.tensor(windows, dtype=torch.float64) * step
    layers.q_weight[:] = sharp * direction
    layers.q_bias[:, 0] = -sharp * (at - step / 2)
    layers.q_bias[:, 1] = -sharp * (at + step / 2)
    layers.k_weight[:] = direction
    layers.v_weight[:] = direction
    layers.o_weight[:, 0] = torch.tensor([shift, -shift], dtype=torch.float64)
    return Layers(attention=layers)


def global_shift(
    *, step: float, digits: Sequence[int], shift: int, gap: float, lift: float
) -> Layers:
    """One block: every token's id grows by shift·max, then by the constant `lift`.

    b = -1: every id of the grid is above it by at least 1, keys differ by δ, so λδ is the gap.
    The lift, in the feed-forward half, raises all ids above the values that the value map writes.
    """
    direction = torch.tensor(digits, dtype=torch.float64)
    attention = blank_attention(1, heads=2, size=1, width=len(digits))
    sharp = gap / step
    attention.q_weight[0, 0] = sharp * direction
    attention.q_bias[0, 0] = sharp
    attention.k_weight[0, 0] = direction
    attention.v_weight[0, 0] = direction
    attention.o_weight[0, 0, 0] = shift
    feedforward = blank_feed_forward(1, 4, len(digits))
    feedforward.down_bias[0, 0] = lift
    return Layers(attention=attention, feedforward=feedforward)


def all_max_shift(
    *, layers: int, step: float, digits: Sequence[int], shift: int, gap: float, lift: float
) -> list[Layers]:
    """Every token's id grows by shift times the largest id that it attends to; `layers` times, then
    by the constant `lift`. The query is a constant: keys differ by δ, so λδ is the gap."""
    direction = torch.tensor(digits, dtype=torch.float64)
    attention = blank_attention(layers, heads=2, size=1, width=len(digits))
    attention.q_bias[:, 0] = gap / step
    attention.k_weight[:, 0] = direction
    attention.v_weight[:, 0] = direction
    attention.o_weight[:, 0, 0] = shift
    feedforward = blank_feed_forward(1, 4, len(digits))
    feedforward.down_bias[0, 0] = lift
    return closed(attention, feedforward)
