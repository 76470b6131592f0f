"""Clipped selector: every token holds the outputs of all tokens and keeps its own, clipped.

With p_i = 1 in token i and 0 elsewhere,

    Σ_i [ReLU(F_i + 2B p_i - B) - ReLU(F_i - B)] - B

is ReLU(F_i + B) - ReLU(F_i - B) - B for the own i, which is F_i clipped to [-B, B]; the two ReLUs
of every other i are the same number. Unlike `select` it assumes nothing about the size of F: a net
fitted to samples has no other bound. B is a power of two.
"""

from __future__ import annotations

import torch

from anyseq.construct.gadgets.blank import blank_feed_forward
from anyseq.nn import Layers


def select_clipped(
    *, tokens: int, out_features: int, width: int, position_at: int, values_at: int, bound: float
) -> Layers:
    """Value (i, o) is feature values_at + i·out_features + o; the own ones go to features 0, ..."""
    count = tokens * out_features
    layers = blank_feed_forward(1, 2 * count, width)
    value = torch.arange(count)
    token, out = value // out_features, value % out_features
    own, above = 2 * value, 2 * value + 1  # side by side: what cancels is summed together
    for unit, sign in ((own, 1.0), (above, -1.0)):
        layers.up_weight[0, unit, values_at + value] = 1.0
        layers.down_weight[0, out, unit] = sign
    layers.up_weight[0, own, position_at + token] = 2 * bound
    layers.up_bias[0] = -bound
    layers.down_bias[0, :out_features] = -bound
    return Layers(feedforward=layers)
