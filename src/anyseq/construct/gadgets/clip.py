"""Clip: outputs into [-M, M], so that inputs on a ramp do little harm.

An input on a ramp of the quantiser misses every value window and would leave an id, up to 2^50, as
output: a set of tiny measure that ruins every L^p norm. Per feature

    x - ReLU(x-M) + ReLU(-x-M),

two ReLUs, so two features a block. It is applied twice, because the first pass rounds at the size
of the id. Values in [-M, M] pass unchanged, all ReLUs being off. With M = 2 it also makes inputs up
to 2^53 small, exactly: x - 2 does not round there.
"""

from __future__ import annotations

from anyseq.construct.gadgets.blank import blank_feed_forward
from anyseq.nn import Layers

_PASSES = 2


def clip_layers(features: int) -> int:
    """How many layers `clip` has."""
    return _PASSES * -(-features // 2)


def clip(*, features: int, width: int, bound: float) -> Layers:
    """Clip features 0, ..., features-1 to [-bound, bound]."""
    layers = blank_feed_forward(clip_layers(features), 4, width)
    each = clip_layers(features) // _PASSES
    for feature in range(features):
        unit = 2 * (feature % 2)
        for row in range(feature // 2, clip_layers(features), each):
            layers.up_weight[row, unit, feature] = 1.0
            layers.up_weight[row, unit + 1, feature] = -1.0
            layers.up_bias[row, unit : unit + 2] = -bound
            layers.down_weight[row, feature, unit] = -1.0
            layers.down_weight[row, feature, unit + 1] = 1.0
    return Layers(feedforward=layers)
