"""Windows: a look-up by one number t, as ReLU layers.

Window k is [low_k, high_k], with ramps of width 1/slope at both ends:

    v_k(t) = ReLU(gate - slope·ReLU(low_k - t) - slope·ReLU(t - high_k)),

and the layers add Σ_k v_k(t) values_k. `gate` is 1, or a feature of the token between 0 and 1. In
float64 v_k is *exactly* the gate where low_k <= t <= high_k, both inner ReLUs being off, and
*exactly* 0 where t is 1/slope or more outside: slope is a power of two, and a rounded difference is
on the right side of 1/slope, itself a float. So nothing leaks between windows, however many there
are, and what comes from float noise in t less than half a window wide is nothing.

For `chunk` windows at a time an inner layer puts s_k = slope·(ReLU(low_k - t) + ReLU(t - high_k))
into a node feature, and an outer layer adds ReLU(gate - s_k) values_k and clears
s_k - ReLU(s_k) = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from anyseq.construct.gadgets.blank import blank_feed_forward
from anyseq.nn import Layers


@dataclass(frozen=True)
class Room:
    """The sizes of the layers, hidden >= 2·chunk, and the first of the `chunk` node features."""

    width: int
    hidden: int
    nodes_at: int
    chunk: int

    def layers(self, count: int) -> int:
        """How many layers `windows` has for so many windows."""
        return 2 * -(-count // self.chunk)


def windows(
    low: torch.Tensor,
    high: torch.Tensor,
    values: torch.Tensor,
    *,
    slope: float,
    at: int,
    into: int,
    room: Room,
    gate: int | None = None,
) -> Layers:
    """low, high (K,), values (K, V): t is feature `at`, values go to features into, into+1, ..."""
    number = torch.arange(len(low))
    inner, slot = 2 * (number // room.chunk), number % room.chunk
    outer, node = inner + 1, room.nodes_at + slot
    layers = blank_feed_forward(room.layers(len(low)), room.hidden, room.width)
    layers.up_weight[inner, 2 * slot, at] = -1.0
    layers.up_bias[inner, 2 * slot] = low
    layers.up_weight[inner, 2 * slot + 1, at] = 1.0
    layers.up_bias[inner, 2 * slot + 1] = -high
    layers.down_weight[inner, node, 2 * slot] = slope
    layers.down_weight[inner, node, 2 * slot + 1] = slope
    layers.up_weight[outer, slot, node] = -1.0
    if gate is None:
        layers.up_bias[outer, slot] = 1.0
    else:
        layers.up_weight[outer, slot, gate] = 1.0
    layers.down_weight[outer, into : into + values.shape[1], slot] = values
    layers.up_weight[outer, room.chunk + slot, node] = 1.0
    layers.down_weight[outer, node, room.chunk + slot] = -1.0
    return Layers(feedforward=layers)
