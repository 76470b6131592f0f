"""Erase (Theorem 2): tokens whose id lies outside [low, high] become 0.

Without positions, a sequence with two equal tokens ends below all good ids, and one with a token
outside the domain ends outside them; the paper maps both to 0. First one layer pushes every feature
of such a token below 0,

    z_i - κ ReLU(low - δ/4 - t) - κ ReLU(t - high - δ/4),    t = u·z,

then every negative entry becomes 0: z_i + ReLU(-z_i), four features a block. Good tokens have no
negative entries and pass unchanged, all ReLUs being off.

κ: a bad id is at least δ off, so the ReLU is at least 3δ/4, and κδ >= 4(high + largest |u·z - z_i|)
outweighs any entry; further out the push grows faster than the entries do.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from anyseq.base import power_of_two_at_least
from anyseq.construct.gadgets.blank import blank_feed_forward
from anyseq.nn import Layers


def erase_layers(width: int) -> int:
    """How many layers `erase` has."""
    return 1 + -(-width // 4)


def erase(*, low: float, high: float, slack: float, step: float, digits: Sequence[int]) -> Layers:
    """Erase tokens with ids off [low, high]; `slack` bounds what other features add to an id."""
    width = len(digits)
    layers = blank_feed_forward(erase_layers(width), 4, width)
    direction = torch.tensor(digits, dtype=torch.float64)
    layers.up_weight[0, 0] = -direction
    layers.up_weight[0, 1] = direction
    layers.up_bias[0, 0] = low - step / 4
    layers.up_bias[0, 1] = -high - step / 4
    layers.down_weight[0, :, :2] = -power_of_two_at_least(4 * (high + slack) / step)
    for feature in range(width):
        row, unit = 1 + feature // 4, feature % 4
        layers.up_weight[row, unit, feature] = -1.0
        layers.down_weight[row, feature, unit] = 1.0
    return Layers(feedforward=layers)
