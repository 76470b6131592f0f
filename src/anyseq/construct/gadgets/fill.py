"""Fill: weights w_1, ..., w_S >= 0 of sum 1, none above its allowance.

Feature s holds a badness b_s >= 0, and its allowance is g_s = ReLU(1 - b_s). In turn each weight
takes what is left of 1, up to its allowance: with r_1 = 1

    r_(s+1) = ReLU(r_s - g_s),    w_s = r_s - r_(s+1) = min(r_s, g_s).

If some b_s is 0 then g_s = 1 and r_(s+1) = 0, so the weights have sum 1. Where b_s >= 1, w_s is an
exact 0. First one layer turns all b into g, then one layer per s turns g_s into w_s.
"""

from __future__ import annotations

import torch

from anyseq.construct.gadgets.blank import blank_feed_forward
from anyseq.nn import Layers


def fill(count: int, *, at: int, rest_at: int, hidden: int, width: int) -> Layers:
    """Features at, ..., at+count-1 in place; `rest_at` holds 1 before and 0 after."""
    layers = blank_feed_forward(1 + count, hidden, width)
    number = torch.arange(count)
    bad, good = 2 * number, 2 * number + 1
    layers.up_weight[0, bad, at + number] = 1.0
    layers.down_weight[0, at + number, bad] = -1.0
    layers.up_weight[0, good, at + number] = -1.0
    layers.up_bias[0, good] = 1.0
    layers.down_weight[0, at + number, good] = 1.0

    # units: r_s, r_s - g_s, g_s
    row, own = 1 + number, at + number
    layers.up_weight[row, 0, rest_at] = 1.0
    layers.up_weight[row, 1, rest_at] = 1.0
    layers.up_weight[row, 1, own] = -1.0
    layers.up_weight[row, 2, own] = 1.0
    layers.down_weight[row, rest_at, 0] = -1.0
    layers.down_weight[row, rest_at, 1] = 1.0
    layers.down_weight[row, own, 0] = 1.0
    layers.down_weight[row, own, 1] = -1.0
    layers.down_weight[row, own, 2] = -1.0
    return Layers(feedforward=layers)
