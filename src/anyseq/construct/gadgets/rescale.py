"""Rescale: every id t = u·z becomes scale·t, scale a power of two, in one layer.

Feature 0 gains -h + scale·h with h = ReLU(u·z), a ReLU each; so u·z becomes t - t + scale·t. Both
products are exact, so the sum is rounded once, whatever the order: by at most half an ulp of t.
`rescaled` computes the same number. Ids <= 0 stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from anyseq.construct.gadgets.blank import blank_feed_forward
from anyseq.nn import Layers


def rescaled(ids: torch.Tensor, scale: float) -> torch.Tensor:
    """The ids, positive, after the layer, rounding included."""
    return ids + (scale * ids - ids)


def rescale(*, scale: float, digits: Sequence[int]) -> Layers:
    """The layer."""
    layers = blank_feed_forward(1, 4, len(digits))
    layers.up_weight[0, :2] = torch.tensor(digits, dtype=torch.float64)
    layers.down_weight[0, 0, :2] = torch.tensor([-1.0, scale], dtype=torch.float64)
    return Layers(feedforward=layers)
