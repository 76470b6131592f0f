"""Our weights in torch's own layers, to see that a peer is the same model."""

from __future__ import annotations

import torch
from torch import nn

from anyseq.nn import Attention, Block, FeedForward


def fill_attention(theirs: nn.MultiheadAttention, *weights: torch.Tensor) -> None:
    """weights: of queries, their bias, of keys, of values, of the output."""
    q, q_bias, k, v, o = weights
    assert theirs.in_proj_weight is not None
    nothing = torch.zeros(2 * len(q), dtype=q.dtype)
    theirs.in_proj_weight.data = torch.cat([q, k, v])
    theirs.in_proj_bias.data = torch.cat([q_bias, nothing])
    theirs.out_proj.weight.data = o
    theirs.out_proj.bias.data.zero_()


def fill_own_attention(theirs: nn.MultiheadAttention, ours: object) -> None:
    """From Attention."""
    assert isinstance(ours, Attention)
    fill_attention(
        theirs, ours.q_proj.weight, ours.q_proj.bias, ours.k_proj.weight, ours.v_proj.weight,
        ours.o_proj.weight,
    )  # fmt: skip


def fill_feedforward(
    theirs: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer, ours: FeedForward | None
) -> None:
    """From the feed-forward half."""
    assert ours is not None
    theirs.linear1.load_state_dict(ours.up_proj.state_dict())
    theirs.linear2.load_state_dict(ours.down_proj.state_dict())


def fill_encoder_layer(theirs: nn.Module, ours: nn.Module) -> None:
    """From a Block of attention and a feed-forward half."""
    assert isinstance(theirs, nn.TransformerEncoderLayer)
    assert isinstance(ours, Block)
    fill_own_attention(theirs.self_attn, ours.mixer)
    fill_feedforward(theirs, ours.feedforward)
    theirs.norm1.load_state_dict(ours.mixer_norm.state_dict())
    theirs.norm2.load_state_dict(ours.feedforward_norm.state_dict())


def shaken(model: nn.Module) -> None:
    """Every weight a little elsewhere, so that none of them is without effect."""
    torch.manual_seed(1)
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
