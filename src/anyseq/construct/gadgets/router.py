"""Router: one attention layer after which every token holds the whole sequence, exactly.

Token j carries a 1 in feature `position_at + j`. Head j has the constant query λ and that feature
as key, so its scores are λ for token j and 0 for the others; with λ = ZERO_WEIGHT_GAP the others
weigh exactly 0. Its value is the token's d input features; its output goes to slot j.
The feed-forward half then clears the input features, x - ReLU(x) + ReLU(-x) = 0, to make room for
the output.
"""

from __future__ import annotations

from anyseq.base import ZERO_WEIGHT_GAP
from anyseq.construct.gadgets.blank import blank_attention, blank_feed_forward
from anyseq.nn import Layers


def route(*, tokens: int, features: int, width: int, position_at: int, slots_at: int) -> Layers:
    """Slot (j, f) is feature slots_at + j·features + f."""
    attention = blank_attention(1, heads=tokens, size=features, width=width)
    for token in range(tokens):
        head = token * features
        attention.q_bias[0, head] = ZERO_WEIGHT_GAP
        attention.k_weight[0, head, position_at + token] = 1.0
        for feature in range(features):
            attention.v_weight[0, head + feature, feature] = 1.0
            attention.o_weight[0, slots_at + head + feature, head + feature] = 1.0
    feedforward = blank_feed_forward(1, 2 * features, width)
    for feature in range(features):
        for unit, sign in ((2 * feature, 1.0), (2 * feature + 1, -1.0)):
            feedforward.up_weight[0, unit, feature] = sign
            feedforward.down_weight[0, feature, unit] = -sign
    return Layers(attention=attention, feedforward=feedforward)
