"""Trainable modules. They take (batch, tokens, features)."""

from anyseq.nn.attention import Attention
from anyseq.nn.block import Block
from anyseq.nn.feedforward import FeedForward
from anyseq.nn.layers import AttentionLayers, FeedForwardLayers, Layers, StackShape
from anyseq.nn.stack import Stack

__all__ = [
    "Attention",
    "AttentionLayers",
    "Block",
    "FeedForward",
    "FeedForwardLayers",
    "Layers",
    "Stack",
    "StackShape",
]
