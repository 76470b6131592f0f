"""Selector: every token holds the outputs of all tokens and keeps its own.

With p_i = 1 in token i and 0 elsewhere, and |F| <= B,

    Σ_i ReLU(F_i + 2B p_i - B) - B

is F_i + B - B for the own i, and the others, F - B <= 0, are off. B is a power of two.
"""

from __future__ import annotations

import torch

from anyseq.construct.gadgets.blank import blank_feed_forward
from anyseq.nn import Layers


def select(
    *, tokens: int, out_features: int, width: int, position_at: int, values_at: int, bound: float
) -> Layers:
    """Value (i, o) is feature values_at + i·out_features + o; the own ones go to features 0, ..."""
    count = tokens * out_features
    layers = blank_feed_forward(1, count, width)
    unit = torch.arange(count)
    token, out = unit // out_features, unit % out_features
    layers.up_weight[0, unit, values_at + unit] = 1.0
    layers.up_weight[0, unit, position_at + token] = 2 * bound
    layers.up_bias[0] = -bound
    layers.down_weight[0, out, unit] = 1.0
    layers.down_bias[0, :out_features] = -bound
    return Layers(feedforward=layers)
