"""Layers of zeros for a gadget to fill, in float64."""

from __future__ import annotations

import torch

from anyseq.nn import AttentionLayers, FeedForwardLayers


def blank_feed_forward(layers: int, hidden: int, width: int) -> FeedForwardLayers:
    """Feed-forward halves that add nothing."""
    return FeedForwardLayers(
        up_weight=torch.zeros(layers, hidden, width, dtype=torch.float64),
        up_bias=torch.zeros(layers, hidden, dtype=torch.float64),
        down_weight=torch.zeros(layers, width, hidden, dtype=torch.float64),
        down_bias=torch.zeros(layers, width, dtype=torch.float64),
    )


def blank_attention(layers: int, heads: int, size: int, width: int) -> AttentionLayers:
    """Attention halves that add nothing."""
    inner = heads * size
    return AttentionLayers(
        heads=heads,
        q_weight=torch.zeros(layers, inner, width, dtype=torch.float64),
        q_bias=torch.zeros(layers, inner, dtype=torch.float64),
        k_weight=torch.zeros(layers, inner, width, dtype=torch.float64),
        v_weight=torch.zeros(layers, inner, width, dtype=torch.float64),
        o_weight=torch.zeros(layers, width, inner, dtype=torch.float64),
    )
