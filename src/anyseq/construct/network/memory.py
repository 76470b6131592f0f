"""A stack with a memory: tokens that are parameters, beside the tokens of the input.

A block attends to nothing but the tokens of the sequence, and a softmax over M nodes of a grid
needs M keys. (With n tokens, heads give quotients of sums of n exponentials each, and no linear map
of quotients is the quotient of the sums.) So the last attention half of this stack looks at learned
keys and values instead, as in prefix tuning. Such a network is *not* one of the design that was
asked for: the memory is an extra, and whoever takes it must want it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.functional import pad

from anyseq.design import Design
from anyseq.nn import Block, Stack, StackShape


@dataclass(frozen=True)
class MemoryShape(StackShape):
    """The sizes of a MemoryStack.

    memory: the number of its memory tokens, with keys of D+1 numbers and values of n·d_out.
    slots_at: where the D features begin that hold the whole sequence; the n·d_out features that
        receive what is recalled follow them.
    """

    memory: int = 0
    slots_at: int = 0

    @property
    def values_at(self) -> int:
        """The first feature that receives what is recalled."""
        return self.slots_at + self.tokens * self.in_features

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Those of a stack, without projections for the last attention half, and the memory."""
        shapes = super().tensors()
        for name in ("q_weight", "q_bias", "k_weight", "v_weight", "o_weight"):
            shapes[name] = (self.attention_layers - 1, *shapes[name][1:])
        return shapes | {
            "memory_key": (self.memory, self.tokens * self.in_features + 1),
            "memory_value": (self.memory, self.tokens * self.out_features),
        }


class MemoryAttention(nn.Module):
    """softmax((slots, 1) key^T) value, for each token; the residual is the block's."""

    causal = False

    def __init__(self, key: nn.Parameter, value: nn.Parameter, shape: MemoryShape) -> None:
        super().__init__()
        self.key, self.value = key, value
        self.shape, self.dim = shape, shape.width

    def forward(self, x: torch.Tensor, **told: Any) -> torch.Tensor:
        """(batch, tokens, width) -> (batch, tokens, width)."""
        return recall(x, self.key, self.value, self.shape)


class MemoryStack(Stack):
    """A Stack whose last attention half is a MemoryAttention."""

    shape: MemoryShape

    def __getitem__(self, index: int) -> Block:
        attention_row, feedforward_row = self.get_buffer("halves")[index].tolist()
        if attention_row < self._memory_row:
            return super().__getitem__(index)
        key, value = (nn.Parameter(part.detach()) for part in self._memory)
        mixer = MemoryAttention(key, value, self.shape)
        return Block(mixer, self._feed_forward_module(feedforward_row))

    @property
    def _memory_row(self) -> int:
        return self.shape.attention_layers - 1

    @property
    def _memory(self) -> tuple[nn.Parameter, nn.Parameter]:
        return self.get_parameter("memory_key"), self.get_parameter("memory_value")

    def _attention(self, x: torch.Tensor, layer: int, row: int) -> torch.Tensor:
        if row < self._memory_row:
            return super()._attention(x, layer, row)
        return recall(x, *self._memory, self.shape)


def recall(
    x: torch.Tensor, key: torch.Tensor, value: torch.Tensor, shape: MemoryShape
) -> torch.Tensor:
    """What attention over the memory adds to x (batch, tokens, width)."""
    slots = x[..., shape.slots_at : shape.values_at]
    scores = slots @ key[:, :-1].T + key[:, -1]
    recalled = torch.softmax(scores, dim=-1) @ value
    return pad(recalled, (shape.values_at, shape.width - shape.values_at - value.shape[1]))


def restore(design: Design, sizes: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> Stack:
    """The stack that saved sizes and tensors describe."""
    if "memory" in sizes:
        return MemoryStack(design, MemoryShape(**sizes), tensors)
    return Stack(design, StackShape(**sizes), tensors)
