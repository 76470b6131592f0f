"""Clear: some features become 0 in one layer, x - ReLU(x) + ReLU(-x) = 0, exactly."""

from __future__ import annotations

import torch

from anyseq.construct.gadgets.blank import blank_feed_forward
from anyseq.nn import FeedForwardLayers


def clear(features: int, *, at: int, hidden: int, width: int) -> FeedForwardLayers:
    """Features at, ..., at+features-1; the first 2·features ReLUs are used."""
    layers = blank_feed_forward(1, hidden, width)
    feature = torch.arange(features)
    for unit, sign in ((2 * feature, 1.0), (2 * feature + 1, -1.0)):
        layers.up_weight[0, unit, at + feature] = sign
        layers.down_weight[0, at + feature, unit] = -sign
    return layers
