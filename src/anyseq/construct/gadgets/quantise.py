"""Quantiser: every entry goes to the lower end of its cell, one layer per cell and feature.

The layer of cell [a, a+δ) adds to its feature t

    φ(t) = -ReLU(t-a) + (1+s) ReLU(t-(a+δ-γ)) - s ReLU(t-(a+δ)),    s = (δ-γ)/γ,

which is -(t-a) on [a, a+δ-γ], rises to 0 on the *ramp* [a+δ-γ, a+δ], and is 0 elsewhere. Off the
ramps the entry becomes a, exactly: t-a has no rounding error for a <= t <= 2a (Sterbenz) or a = 0,
and neither has t-(t-a).

Cells go in descending order. A layer above an entry's cell adds an exact 0, all its ReLUs being
off. A layer below it meets the entry after it has become a multiple of δ; then, 1+s = δ/γ being a
power of two, its terms are multiples of δ no larger than Rδ/γ where [0, R) is the range of the
entries, so their sum is an exact 0 while R/γ <= 2^52. That is `narrowest_ramp`. (In ascending
order the layers above would meet unquantised entries, and the rounding of s ReLU(...) would wipe
out whole ids.)
"""

from __future__ import annotations

import torch

from anyseq.base import EXACT_BITS, power_of_two_at_least
from anyseq.construct.gadgets.blank import blank_feed_forward
from anyseq.nn import Layers


def narrowest_ramp(reach: float) -> float:
    """The smallest power of two γ with reach/γ <= 2^52, for entries in [0, reach)."""
    return power_of_two_at_least(reach * 2.0 ** (1 - EXACT_BITS))


def quantise(
    *, features: int, width: int, cells: int, step: float, ramp: float, first: int = 0
) -> Layers:
    """Quantise features first, first+1, ..., on cells [0, δ), ..., [(cells-1)δ, cells·δ)."""
    layers = blank_feed_forward(features * cells, 4, width)
    steep = step / ramp  # 1 + s, a power of two
    for feature in range(features):
        rows = slice(feature * cells, (feature + 1) * cells)
        low = torch.arange(cells - 1, -1, -1, dtype=torch.float64) * step
        layers.up_weight[rows, :3, first + feature] = 1.0
        layers.up_bias[rows, 0] = -low
        layers.up_bias[rows, 1] = -(low + step - ramp)
        layers.up_bias[rows, 2] = -(low + step)
        layers.down_weight[rows, first + feature, :3] = torch.tensor(
            [-1.0, steep, 1.0 - steep], dtype=torch.float64
        )
    return Layers(feedforward=layers)


def banish_ramp(depth: float) -> float:
    """The width γ' of the ramps of `banish`: the smallest power of two that keeps (depth+1)/γ' and
    its neighbours exact."""
    return narrowest_ramp(2 * (depth + 1))


def banish(*, features: int, width: int, depth: float) -> Layers:
    """Send entries outside [0, 1) to -depth (Theorem 2: f is 0 out there). One layer per feature.

    On [0, 1-γ'] all ReLUs are off. Below -γ' and from 1 on, φ(t) = -t - depth; with v = t - (1-γ')

        φ(t) = -κ ReLU(-t) + (κ+1) ReLU(-t-γ') - κ' ReLU(v) + (κ'-1) ReLU(v-γ'),
        κ = depth/γ' - 1,   κ' = (depth+1)/γ'.

    It comes before the quantiser, which leaves negative entries alone, all its ReLUs being off, but
    would round entries above 1 into the domain.
    """
    layers = blank_feed_forward(features, 4, width)
    ramp = banish_ramp(depth)
    below, above = depth / ramp - 1.0, (depth + 1.0) / ramp
    end = 1.0 - ramp
    for feature in range(features):
        layers.up_weight[feature, :, feature] = torch.tensor(
            [-1.0, -1.0, 1.0, 1.0], dtype=torch.float64
        )
        layers.up_bias[feature] = torch.tensor([0.0, -ramp, -end, -1.0], dtype=torch.float64)
        layers.down_weight[feature, feature] = torch.tensor(
            [-below, below + 1.0, -above, above - 1.0], dtype=torch.float64
        )
    return Layers(feedforward=layers)
