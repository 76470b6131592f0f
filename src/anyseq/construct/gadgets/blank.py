"""Layers of zeros for a gadget to fill, in float64, and how runs of layers are cut and joined."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch.nn.functional import pad

from anyseq.nn import AttentionLayers, FeedForwardLayers, Layers


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


def idle(layers: int, width: int) -> list[Layers]:
    """Blocks that add nothing: they only advance the cycle of patterns."""
    return [Layers(feedforward=blank_feed_forward(layers, 4, width))] if layers else []


def rows(attention: AttentionLayers, start: int, stop: int | None = None) -> AttentionLayers:
    """Layers start, ..., stop-1 of a run without positions inside."""
    part = slice(start, stop)
    return AttentionLayers(
        heads=attention.heads,
        q_weight=attention.q_weight[part],
        q_bias=attention.q_bias[part],
        k_weight=attention.k_weight[part],
        v_weight=attention.v_weight[part],
        o_weight=attention.o_weight[part],
    )


def widened(attention: AttentionLayers, width: int) -> AttentionLayers:
    """The same layers among further features, which they neither read nor write."""
    more = width - attention.q_weight.shape[2]
    return replace(
        attention,
        q_weight=pad(attention.q_weight, (0, more)),
        k_weight=pad(attention.k_weight, (0, more)),
        v_weight=pad(attention.v_weight, (0, more)),
        o_weight=pad(attention.o_weight, (0, 0, 0, more)),
    )


def closed(attention: AttentionLayers, feedforward: FeedForwardLayers) -> list[Layers]:
    """Attention layers, the last of which has this feed-forward half."""
    last = len(attention.q_bias) - 1
    return [
        *([Layers(attention=rows(attention, 0, last))] if last else []),
        Layers(attention=rows(attention, last), feedforward=feedforward),
    ]
