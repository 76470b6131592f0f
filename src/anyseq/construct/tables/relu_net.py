"""The feed-forward net that method "fit" trains: residual ReLU blocks on the flattened sequence.

    s_0 = (x, 0, ..., 0)                          x (D,), s (body,)
    s_l = s_{l-1} + W'_l ReLU(W_l s_{l-1} + b_l) + b'_l        l = 1, ..., L-1
    F   = W'_L ReLU(W_L s_{L-1} + b_L) + b'_L                  (outputs,)

These are the feed-forward halves of a Stack whose tokens all hold the sequence, so the trained
numbers go into the network as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch.nn.functional import linear, pad, relu

from anyseq.construct.tables.tensors import check_tensor
from anyseq.errors import InvalidArgument

_BATCH = 2048  # inputs at a time: their hidden layer stays in the cache


@dataclass(frozen=True)
class NetShape:
    """The sizes of the net."""

    axes: int
    body: int
    hidden: int
    blocks: int
    outputs: int

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """The shape of every weight, stacked along the block axis."""
        return {
            "up_weight": (self.blocks, self.hidden, self.body),
            "up_bias": (self.blocks, self.hidden),
            "down_weight": (self.blocks - 1, self.body, self.hidden),
            "down_bias": (self.blocks - 1, self.body),
            "out_weight": (self.outputs, self.hidden),
            "out_bias": (self.outputs,),
        }

    @property
    def parameters(self) -> int:
        """How many numbers are trained."""
        return sum(math.prod(shape) for shape in self.tensors().values())

    def views(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        """The weights as views of one vector."""
        shapes = self.tensors()
        parts = flat.split([math.prod(shape) for shape in shapes.values()])
        return {
            name: part.view(shape)
            for (name, shape), part in zip(shapes.items(), parts, strict=True)
        }

    def draw(self, rng: torch.Generator) -> torch.Tensor:
        """Weights to start from, as one float32 vector: F = 0.

        Rows of W are normal, with variances that keep the pre-activations of a uniform x at about
        1 (its entries vary by 1/12), centred at the middle of the cube; the residual branches are
        halved, and the output starts at 0.
        """
        flat = torch.zeros(self.parameters)
        weights = self.views(flat)
        spread = torch.full((self.blocks, 1, 1), self.body**-0.5)
        spread[0] = math.sqrt(12 / self.axes)
        weights["up_weight"].normal_(generator=rng).mul_(spread)
        weights["up_weight"][0, :, self.axes :] = 0.0
        weights["up_bias"][0] = -0.5 * weights["up_weight"][0].sum(1)
        weights["down_weight"].normal_(std=0.5 * self.hidden**-0.5, generator=rng)
        return flat


def evaluate(weights: Mapping[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """F (batch, outputs) for x (batch, D)."""
    s = pad(x, (0, weights["up_weight"].shape[2] - x.shape[1]))
    *before, (up, bias) = _pairs(weights, "up")
    for (inner, inner_bias), (down, down_bias) in zip(before, _pairs(weights, "down"), strict=True):
        s = s + linear(relu(linear(s, inner, inner_bias)), down, down_bias)
    return linear(relu(linear(s, up, bias)), weights["out_weight"], weights["out_bias"])


def _pairs(
    weights: Mapping[str, torch.Tensor], half: str
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    return zip(weights[f"{half}_weight"].unbind(), weights[f"{half}_bias"].unbind(), strict=True)


@dataclass(frozen=True)
class FittedNet:
    """The fused form of method "fit": the net on the flattened sequence, once instead of in every
    token, with its outputs clipped to [-bound, bound] as the network's last layer does."""

    kind: ClassVar[str] = "net"
    tokens: int
    bound: float
    up_weight: torch.Tensor
    up_bias: torch.Tensor
    down_weight: torch.Tensor
    down_bias: torch.Tensor
    out_weight: torch.Tensor
    out_bias: torch.Tensor

    def __post_init__(self) -> None:
        blocks, hidden, body = self.up_weight.shape
        outputs = len(self.out_bias)
        shape = NetShape(body, body, hidden, blocks, outputs)
        for name, tensor in self.tensors().items():
            check_tensor(name, tensor, shape.tensors()[name])
        if outputs % self.tokens:
            raise InvalidArgument(f"{outputs} outputs for {self.tokens} tokens")

    def covers(self, x: torch.Tensor) -> torch.Tensor:
        return ((x >= 0) & (x <= 1)).flatten(1).all(1)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        flat = x.flatten(1)
        # an exported graph is for batches of any size: it has no loop over parts
        parts = (flat,) if torch.compiler.is_compiling() else flat.split(_BATCH)
        values = torch.cat([evaluate(self.tensors(), part) for part in parts])
        by_token: torch.Tensor = values.clamp(-self.bound, self.bound).unflatten(
            1, (self.tokens, -1)
        )
        return by_token

    def tensors(self) -> dict[str, torch.Tensor]:
        return {
            "up_weight": self.up_weight,
            "up_bias": self.up_bias,
            "down_weight": self.down_weight,
            "down_bias": self.down_bias,
            "out_weight": self.out_weight,
            "out_bias": self.out_bias,
        }

    def facts(self) -> dict[str, Any]:
        return {"kind": self.kind, "tokens": self.tokens, "bound": self.bound}
