"""Set apart: every token adds up the outputs of all tokens, and keeps its own.

Let |F| <= 1. Before anything is added, value i of token i is set to 0 and all others to -2
(`set_apart`); from then on positions are not needed, and their features are free. In the end

    Σ_i ReLU(F_i + 1) - 1,    F_i - 2 + 1 <= 0 where i is not the own,

is the own F_i, and times `scale`, a power of two, of any size (`keep_own`).
"""

from __future__ import annotations

import torch

from anyseq.construct.gadgets.blank import blank_feed_forward
from anyseq.nn import FeedForwardLayers, Layers


def set_apart(
    first: FeedForwardLayers, *, tokens: int, out_features: int, position_at: int, values_at: int
) -> None:
    """Let ReLUs 0, ..., tokens-2 of the first layer read positions, clear them and set values.

    p_i = 1 in token i and 0 elsewhere; the last needs no ReLU, it is 1 less all others. Values are
    in features values_at + i·out_features + o. They are 0 at first, or may be positions.
    """
    unit, last = torch.arange(tokens - 1), tokens - 1
    up, down, bias = first.up_weight[0], first.down_weight[0], first.down_bias[0]
    up[unit, position_at + unit] = 1.0
    down[position_at + unit, unit] -= 1.0
    down[position_at + last, unit] += 1.0
    bias[position_at + last] -= 1.0
    for out in range(out_features):
        value = values_at + torch.arange(tokens) * out_features + out
        down[value[unit], unit] += 2.0
        bias[value[unit]] -= 2.0
        down[value[last], unit] -= 2.0


def keep_own(*, tokens: int, out_features: int, width: int, values_at: int, scale: float) -> Layers:
    """The own values, times `scale`, are added to features 0, ..., out_features-1."""
    count = tokens * out_features
    layers = blank_feed_forward(1, count, width)
    unit = torch.arange(count)
    layers.up_weight[0, unit, values_at + unit] = 1.0
    layers.up_bias[0] = 1.0
    layers.down_weight[0, unit % out_features, unit] = scale
    layers.down_bias[0, :out_features] = -scale
    return Layers(feedforward=layers)
