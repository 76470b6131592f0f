"""What tests of constructions share."""

from __future__ import annotations

import torch

from anyseq.design import Design
from anyseq.nn import Layers, Stack
from anyseq.nn.feedforward import feed_forward


def run(layers: Layers, z: torch.Tensor) -> torch.Tensor:
    """Feed-forward layers on z (..., width), one by one."""
    f = layers.feedforward
    assert f is not None
    assert layers.attention is None
    for weights in zip(f.up_weight, f.up_bias, f.down_weight, f.down_bias, strict=True):
        z = z + feed_forward(z, *weights)
    return z


def run_blocks(runs: list[Layers], z: torch.Tensor) -> torch.Tensor:
    """Blocks on z (batch, tokens, width), all features out."""
    model = Stack.of(Design(z.shape[1]), runs, in_features=z.shape[2], out_features=z.shape[2])
    with torch.no_grad():
        out: torch.Tensor = model(z)
    return out


def is_literal(layers: Layers) -> bool:
    """At most 2 heads of size 1 and 4 hidden ReLUs: T^{2,1,4}."""
    attention, feedforward = layers.attention, layers.feedforward
    return (attention is None or (attention.heads <= 2 and attention.q_bias.shape[1] <= 2)) and (
        feedforward is None or feedforward.up_bias.shape[1] <= 4
    )
