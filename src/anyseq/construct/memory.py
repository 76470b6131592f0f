"""A network with a memory: tokens that are parameters, beside the tokens of the input.

A Stack has nothing to attend to but the tokens of the sequence, and a softmax over M nodes of a
grid needs M keys. (With n tokens, heads give quotients of sums of n exponentials each, and no
linear map of quotients is the quotient of the sums.) So there is a second kind of attention here:
learned keys and values, as in prefix tuning. Such a network is *not* one of the design that was
asked for: the memory is an extra, and whoever takes it must want it.

    block 1    attention over the tokens (the router), feed-forward
    block 2    attention over the memory, feed-forward (the selector)
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn

from anyseq.design import Design
from anyseq.errors import InvalidArgument
from anyseq.nn import FeedForward, Stack, StackShape

_BEFORE = "before."
_MEMORY = ("key", "value")


@dataclass(frozen=True)
class MemoryShape(StackShape):
    """The sizes of a MemoryNetwork: M = `memory` tokens with keys of D+1 and values of n·d_out.

    Slots (D features) begin at `slots_at`, the values that the memory adds right after them.
    """

    memory: int = 0
    slots_at: int = 0

    @property
    def before(self) -> StackShape:
        """Block 1."""
        return StackShape(
            tokens=self.tokens,
            in_features=self.in_features,
            out_features=self.width,
            width=self.width,
            heads=self.heads,
            head_dim=self.head_dim,
            hidden=2 * self.in_features,
            layers=1,
            attention_layers=1,
            feedforward_layers=1,
            positions=True,
        )

    @property
    def slots(self) -> slice:
        """The features that hold the whole sequence."""
        return slice(self.slots_at, self.slots_at + self.tokens * self.in_features)

    @property
    def values(self) -> slice:
        """The features that receive the outputs of all tokens."""
        return slice(self.slots.stop, self.slots.stop + self.tokens * self.out_features)

    def tensors(self) -> dict[str, tuple[int, ...]]:
        axes, entries = self.tokens * self.in_features, self.tokens * self.out_features
        return {f"before.{name}": shape for name, shape in self.before.tensors().items()} | {
            "key": (self.memory, axes + 1),
            "value": (self.memory, entries),
            "select.up_proj.weight": (entries, self.width),
            "select.up_proj.bias": (entries,),
            "select.down_proj.weight": (self.width, entries),
            "select.down_proj.bias": (self.width,),
        }


class MemoryNetwork(nn.Module):
    """x -> block 1 -> softmax((slots, 1) key^T) value, added -> feed-forward half of block 2."""

    def __init__(
        self, design: Design, shape: MemoryShape, tensors: Mapping[str, torch.Tensor]
    ) -> None:
        super().__init__()
        expected = shape.tensors() | {"before.halves": (1, 2)}
        found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        if found != expected:
            raise InvalidArgument(f"tensors of shapes {found}: expected {expected}")
        self.design, self.shape = design, shape
        self.before = Stack(
            design,
            shape.before,
            {n.removeprefix(_BEFORE): t for n, t in tensors.items() if n.startswith(_BEFORE)},
        )
        for name in _MEMORY:
            self.register_parameter(name, nn.Parameter(tensors[name]))
        self.select = FeedForward(shape.width, expected["value"][1], device="meta")
        for name in ("up_proj", "down_proj"):
            projection = self.select.get_submodule(name)
            for part in ("weight", "bias"):
                parameter = nn.Parameter(tensors[f"select.{name}.{part}"])
                projection.register_parameter(part, parameter)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, in_features) -> (batch, tokens, out_features)."""
        z = self.before(x)
        slots = z[..., self.shape.slots]
        query = torch.cat([slots, torch.ones_like(slots[..., :1])], dim=-1)
        weights = torch.softmax(query @ self.get_parameter("key").T, dim=-1)
        first, last = self.shape.values.start, self.shape.values.stop
        recalled = z[..., first:last] + weights @ self.get_parameter("value")
        z = torch.cat([z[..., :first], recalled, z[..., last:]], dim=-1)
        out: torch.Tensor = (z + self.select(z))[..., : self.shape.out_features]
        return out

    def fingerprint(self) -> str:
        """The SHA-256 of all weights: changes when any of them does, whatever changed it."""
        digest = hashlib.sha256(self.before.fingerprint().encode())
        for name, parameter in self.named_parameters():
            if not name.startswith(_BEFORE):
                digest.update(f"{name} {parameter.dtype} {tuple(parameter.shape)}".encode())
                digest.update(parameter.detach().cpu().contiguous().view(torch.uint8).numpy().data)
        return digest.hexdigest()


Network = Stack | MemoryNetwork
"""What a construction can be."""


def restore(
    design: Design, sizes: Mapping[str, object], tensors: Mapping[str, torch.Tensor]
) -> Network:
    """The network that saved sizes and tensors describe."""
    if "memory" in sizes:
        return MemoryNetwork(design, MemoryShape(**sizes), tensors)  # type: ignore[arg-type]
    return Stack(design, StackShape(**sizes), tensors)  # type: ignore[arg-type]
