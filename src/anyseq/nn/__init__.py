"""Trainable modules. They take (batch, tokens, features)."""

from anyseq.nn.attention import Attention
from anyseq.nn.attention_position import (
    AttentionPosition,
    attention_position,
    inside_attention,
)
from anyseq.nn.block import Block
from anyseq.nn.cache import Cache, LayerCache
from anyseq.nn.feedforward import FeedForward
from anyseq.nn.graph import GraphOutput, GraphTransformer, shortest_paths
from anyseq.nn.input_position import input_position
from anyseq.nn.layers import AttentionLayers, FeedForwardLayers, Layers, StackShape
from anyseq.nn.linear_attention import LinearAttentionMixer
from anyseq.nn.mixers import AverageMixer, BilinearProjection, Mixer, SeparableConv
from anyseq.nn.multihead import MultiheadAttention
from anyseq.nn.norms import Norms
from anyseq.nn.of_layer import made_of
from anyseq.nn.past import counts_offsets_only, keeps_its_past
from anyseq.nn.recurrence import GatedRecurrence
from anyseq.nn.sinks import BesideSink
from anyseq.nn.stack import Stack
from anyseq.nn.transformer import Transformer
from anyseq.nn.writer import make_cache

__all__ = [
    "Attention",
    "AttentionLayers",
    "AttentionPosition",
    "AverageMixer",
    "BesideSink",
    "BilinearProjection",
    "Block",
    "Cache",
    "FeedForward",
    "FeedForwardLayers",
    "GatedRecurrence",
    "GraphOutput",
    "GraphTransformer",
    "LayerCache",
    "Layers",
    "LinearAttentionMixer",
    "Mixer",
    "MultiheadAttention",
    "Norms",
    "SeparableConv",
    "Stack",
    "StackShape",
    "Transformer",
    "attention_position",
    "counts_offsets_only",
    "input_position",
    "inside_attention",
    "keeps_its_past",
    "made_of",
    "make_cache",
    "shortest_paths",
]
