"""Weights of consecutive layers, stacked along the layer axis: what gadgets make, Stack holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch.nn.functional import pad

from anyseq.errors import InvalidArgument

ATTENTION = ("q_weight", "q_bias", "k_weight", "v_weight", "o_weight")
FEEDFORWARD = ("up_weight", "up_bias", "down_weight", "down_bias")


@dataclass(frozen=True)
class AttentionLayers:
    """A layers: q, k, v weights (A, heads · size, width), q_bias (A, heads · size), o_weight
    (A, width, heads · size).

    inside: what a position learns inside attention, by the names of `Attention.position`'s
        parameters, each (A, ...). sink: (A, heads), the scores of sinks.
    """

    heads: int
    q_weight: torch.Tensor
    q_bias: torch.Tensor
    k_weight: torch.Tensor
    v_weight: torch.Tensor
    o_weight: torch.Tensor
    inside: Mapping[str, torch.Tensor] = field(default_factory=dict)
    sink: torch.Tensor | None = None


@dataclass(frozen=True)
class FeedForwardLayers:
    """F layers: up_weight (F, hidden, width), up_bias (F, hidden), down_weight (F, width, hidden),
    down_bias (F, width)."""

    up_weight: torch.Tensor
    up_bias: torch.Tensor
    down_weight: torch.Tensor
    down_bias: torch.Tensor

    def padded(self, hidden: int) -> FeedForwardLayers:
        """The same layers with idle ReLUs added up to `hidden`."""
        extra = hidden - self.up_bias.shape[1]
        return (
            self
            if extra == 0
            else FeedForwardLayers(
                up_weight=pad(self.up_weight, (0, 0, 0, extra)),
                up_bias=pad(self.up_bias, (0, extra)),
                down_weight=pad(self.down_weight, (0, extra)),
                down_bias=self.down_bias,
            )
        )


@dataclass(frozen=True)
class Layers:
    """Consecutive blocks; a half that is None is the zero half.

    idle: the number of blocks, if both halves are None: they only advance the design's cycle.
    """

    attention: AttentionLayers | None = None
    feedforward: FeedForwardLayers | None = None
    idle: int = 0

    def __post_init__(self) -> None:
        if self.attention and self.feedforward:
            a, f = len(self.attention.q_bias), len(self.feedforward.up_bias)
            if a != f:
                raise InvalidArgument(f"{a} attention halves and {f} feed-forward halves")

    def __len__(self) -> int:
        if self.attention:
            return len(self.attention.q_bias)
        return len(self.feedforward.up_bias) if self.feedforward else self.idle


@dataclass(frozen=True)
class StackShape:
    """The sizes of a Stack: everything about it except its numbers.

    positions: a vector for every position (BOS's too) is added to the input.
    constant: one vector is added to every token, before BOS comes.
    gains: the length of URPE's table that all layers share, 0 if there is none.
    inside: what positions learn inside each attention layer, names and shapes.
    """

    tokens: int
    in_features: int
    out_features: int
    width: int
    heads: int
    head_dim: int
    hidden: int
    layers: int
    attention_layers: int
    feedforward_layers: int
    positions: bool
    constant: bool = False
    bos: bool = False
    sinks: bool = False
    gains: int = 0
    inside: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def __post_init__(self) -> None:
        # JSON has lists only
        inside = tuple((name, tuple(shape)) for name, shape in self.inside)
        object.__setattr__(self, "inside", inside)

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """The shape of every parameter."""
        inner, a, f = self.heads * self.head_dim, self.attention_layers, self.feedforward_layers
        shapes: dict[str, tuple[int, ...]] = {
            "q_weight": (a, inner, self.width),
            "q_bias": (a, inner),
            "k_weight": (a, inner, self.width),
            "v_weight": (a, inner, self.width),
            "o_weight": (a, self.width, inner),
            "up_weight": (f, self.hidden, self.width),
            "up_bias": (f, self.hidden),
            "down_weight": (f, self.width, self.hidden),
            "down_bias": (f, self.width),
        }
        shapes |= {inside_name(name): (a, *shape) for name, shape in self.inside}
        further: dict[str, tuple[bool, tuple[int, ...]]] = {
            "position": (self.positions, (self.tokens + self.bos, self.width)),
            "constant": (self.constant, (self.width,)),
            "bos": (self.bos, (self.width,)),
            "sink": (self.sinks, (a, self.heads)),
            "gain": (self.gains > 0, (self.heads, self.gains)),
        }
        return shapes | {name: shape for name, (there, shape) in further.items() if there}

    @property
    def parameters(self) -> int:
        """How many numbers a Stack of this shape holds."""
        return sum(math.prod(shape) for shape in self.tensors().values())


def inside_name(name: str) -> str:
    """The name in a Stack of what a position's parameter `name` is in an Attention."""
    return "inside_" + name.replace(".", "_")


def join(runs: Sequence[Layers]) -> dict[str, torch.Tensor]:
    """One tensor per kind of weight, and `halves` (layers, 2) int32: the row of each layer in the
    attention and in the feed-forward tensors, -1 where it has the zero half."""
    attention = [run.attention for run in runs if run.attention]
    hidden = max(run.feedforward.up_bias.shape[1] for run in runs if run.feedforward)
    feedforward = [run.feedforward.padded(hidden) for run in runs if run.feedforward]
    present = torch.cat(
        [
            torch.tensor([run.attention is not None, run.feedforward is not None]).expand(
                len(run), 2
            )
            for run in runs
        ]
    )
    return {
        **{name: _cat([getattr(part, name) for part in attention]) for name in ATTENTION},
        **{
            inside_name(name): _cat([part.inside[name] for part in attention])
            for name in attention[0].inside
        },
        **_sinks([part.sink for part in attention]),
        **{name: _cat([getattr(part, name) for part in feedforward]) for name in FEEDFORWARD},
        "halves": torch.where(present, present.cumsum(0) - 1, -1).to(torch.int32),
    }


def _sinks(parts: list[torch.Tensor | None]) -> dict[str, torch.Tensor]:
    given = [part for part in parts if part is not None]
    return {"sink": _cat(given)} if given else {}


def _cat(tensors: list[torch.Tensor]) -> torch.Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors)
