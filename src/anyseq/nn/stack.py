"""A very deep network whose weights are a handful of tensors, stacked along the layer axis."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap

import torch
from torch import nn
from torch.func import functional_call
from torch.nn.functional import pad

from anyseq.base import layers_text
from anyseq.design import Design
from anyseq.errors import InvalidArgument
from anyseq.nn.attention import Attention, HeadWeights, multi_head
from anyseq.nn.attention_position import inside_attention
from anyseq.nn.block import Block
from anyseq.nn.feedforward import FeedForward, feed_forward
from anyseq.nn.input_position import SinusoidalInput
from anyseq.nn.layers import FEEDFORWARD, Layers, StackShape, inside_name, join
from anyseq.positions import URPE, NoPosition, Position, Sinusoidal, Toeplitz

# Views of this many layers are made at a time: enough to hide the cost of making them.
_CHUNK = 1024


class Stack(nn.Module):
    """Blocks run one after the other on X, padded with zeros to `width`, plus a constant vector and
    E, with BOS before it if the design has one; features 0, ..., out_features-1 of the tokens after
    the last block are the output.

    `stack[i]` is an ordinary Block that shares the memory of layer i, and `len(stack)` the number
    of layers. (A table of gains that all layers share is the stack's, and is passed to each Block.)
    Layer i uses pattern i mod p of the design's cycle. Scores are not scaled.

    stages: the names of consecutive layers, with their numbers, if they are known.
    """

    stages: tuple[tuple[str, int], ...] = ()

    def __init__(
        self, design: Design, shape: StackShape, tensors: Mapping[str, torch.Tensor]
    ) -> None:
        super().__init__()
        expected = shape.tensors() | {"halves": (shape.layers, 2)}
        if tensors.keys() != expected.keys():
            raise InvalidArgument(
                f"tensors {', '.join(sorted(tensors))}: expected {', '.join(sorted(expected))}"
            )
        for name, size in expected.items():
            if tuple(tensors[name].shape) != size:
                raise InvalidArgument(
                    f"tensor {name!r} has shape {tuple(tensors[name].shape)}, expected {size}"
                )
        self.design, self.shape = design, shape
        for name in shape.tensors():
            self.register_parameter(name, nn.Parameter(tensors[name]))
        self.register_buffer("halves", tensors["halves"])
        self._segments = _segments(tensors["halves"], shape)
        self._waves = (
            SinusoidalInput(base) if isinstance(base := _base(design), Sinusoidal) else None
        )

    @classmethod
    def of(
        cls,
        design: Design,
        runs: Sequence[Layers],
        *,
        in_features: int,
        out_features: int,
        position: torch.Tensor | None = None,
        constant: torch.Tensor | None = None,
        bos: torch.Tensor | None = None,
        gain: torch.Tensor | None = None,
    ) -> Stack:
        """The stack of some runs of layers, idle ones after them if the design has more.

        position: (tokens, width) vectors to add to the tokens, BOS's first if there is one;
        constant: (width,), added to each token; bos: (width,); gain: (heads, 2·positions - 1), the
        table of gains that all layers share.
        """
        more = (design.depth or 0) - sum(map(len, runs))
        tensors = join([*runs, Layers(idle=max(0, more))])
        first = next(run.attention for run in runs if run.attention)
        heads = first.heads
        attention_layers, inner, width = tensors["q_weight"].shape
        feedforward_layers, hidden = tensors["up_bias"].shape
        shape = StackShape(
            tokens=design.tokens,
            in_features=in_features,
            out_features=out_features,
            width=width,
            heads=heads,
            head_dim=inner // heads,
            hidden=hidden,
            layers=len(tensors["halves"]),
            attention_layers=attention_layers,
            feedforward_layers=feedforward_layers,
            positions=position is not None,
            constant=constant is not None,
            bos=bos is not None,
            sinks=first.sink is not None,
            gains=0 if gain is None else gain.shape[1],
            inside=tuple((name, tuple(part.shape[1:])) for name, part in first.inside.items()),
        )
        further = {"position": position, "constant": constant, "bos": bos, "gain": gain}
        given = {name: tensor for name, tensor in further.items() if tensor is not None}
        return cls(design, shape, tensors | given)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, in_features) -> (batch, tokens, out_features)."""
        expected = (self.shape.tokens, self.shape.in_features)
        if x.ndim != 3 or tuple(x.shape[1:]) != expected:
            raise InvalidArgument(
                f"x of shape {tuple(x.shape)}: expected (batch, tokens, features) = "
                f"(any, {expected[0]}, {expected[1]})"
            )
        dtype = self.get_parameter("up_bias").dtype
        if x.dtype != dtype:
            raise InvalidArgument(f"x of dtype {x.dtype}: expected {dtype}, that of the weights")
        x = self._begin(x)
        for layer, attention_row, start, stop in self._segments:
            if attention_row >= 0:
                x = x + self._attention(x, layer, attention_row)
            for weights in self._feed_forward_weights(start, stop):
                x = x + feed_forward(x, *weights)
        return x[:, int(self.shape.bos) :, : self.shape.out_features]

    def trace(self, x: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
        """What `forward` goes through: the number of a layer and all features (batch, positions,
        width) after each of its halves, from (-1, what enters the first layer) on."""
        x = self._begin(x)
        yield -1, x
        layers = (self.get_buffer("halves")[:, 1] >= 0).nonzero().flatten().tolist()
        for layer, attention_row, start, stop in self._segments:
            if attention_row >= 0:
                x = x + self._attention(x, layer, attention_row)
                yield layer, x
            for row, weights in enumerate(self._feed_forward_weights(start, stop), start):
                x = x + feed_forward(x, *weights)
                yield layers[row], x

    def _begin(self, x: torch.Tensor) -> torch.Tensor:
        """What enters the first layer: (batch, positions, width)."""
        x = pad(x, (0, self.shape.width - self.shape.in_features))
        if self.shape.constant:
            x = x + self.get_parameter("constant")
        if self.shape.bos:
            x = torch.cat([self.get_parameter("bos").expand(len(x), 1, -1), x], dim=1)
        if self.shape.positions:
            x = x + self.get_parameter("position")
        if self._waves is not None:
            x = self._waves(x)
        return x

    def __len__(self) -> int:
        return self.shape.layers

    def __getitem__(self, index: int) -> Block:
        """Layer `index` as a Block; changing its weights in place changes the stack's."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"layer {index} of a stack of {len(self)} layers")
        layer = index % len(self)
        attention_row, feedforward_row = self.get_buffer("halves")[layer].tolist()
        return Block(
            mixer=None if attention_row < 0 else self._attention_module(layer, attention_row),
            feedforward=None if feedforward_row < 0 else self._feed_forward_module(feedforward_row),
        )

    def __iter__(self) -> Iterator[Block]:
        return (self[layer] for layer in range(len(self)))

    def __repr__(self) -> str:
        shape = self.shape
        lines = [
            f"Stack: {shape.tokens} tokens x {shape.in_features} -> {shape.out_features} features",
            f"  {layers_text(shape.layers)} ({shape.attention_layers:,} with attention), width "
            f"{shape.width}, {shape.heads} heads of size {shape.head_dim}, {shape.hidden} ReLUs",
            f"  {shape.parameters:,} parameters, {self.get_parameter('up_bias').dtype}",
        ]
        parts, first = [], 1
        for name, layers in self.stages:
            last = first + layers - 1
            parts.append(f"{name} {first:,}-{last:,}" if layers > 1 else f"{name} {first:,}")
            first = last + 1
        lines += wrap(", ".join(parts), 80, initial_indent="  stages: ", subsequent_indent=" " * 4)
        return "\n".join(lines)

    def fingerprint(self) -> str:
        """The SHA-256 of all weights: changes when any of them does, whatever changed it."""
        digest = hashlib.sha256()
        for name, parameter in self.named_parameters():
            digest.update(f"{name} {parameter.dtype} {tuple(parameter.shape)}".encode())
            digest.update(parameter.detach().cpu().contiguous().view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def attend(self, x: torch.Tensor, layer: int) -> torch.Tensor:
        """What the attention half of a layer adds to x (batch, positions, width)."""
        return self._attention(x, layer, int(self.get_buffer("halves")[layer, 0]))

    def _attention(self, x: torch.Tensor, layer: int, row: int) -> torch.Tensor:
        if self._plain:
            weights = HeadWeights(
                q=self.get_parameter("q_weight")[row],
                q_bias=self.get_parameter("q_bias")[row],
                k=self.get_parameter("k_weight")[row],
                v=self.get_parameter("v_weight")[row],
                o=self.get_parameter("o_weight")[row],
            )
            return multi_head(
                x,
                weights,
                heads=self.shape.heads,
                pattern=self.design.cycle[layer % len(self.design.cycle)],
                prob_map=self.design.probability,
                scale=1.0,
            )
        module = self._attention_on_meta(layer)
        named = {
            name: self.get_parameter(own)[row] for name, own in _attention_names(self.shape).items()
        }
        gain = Toeplitz(self.get_parameter("gain")) if self.shape.gains else None
        mixed: torch.Tensor = functional_call(module, named, (x,), {"gain": gain})
        return mixed

    @property
    def _plain(self) -> bool:
        """Whether attention has no positions inside and no sinks."""
        inside, shared_gain = inside_attention(self.design.position)
        return isinstance(inside, NoPosition) and not (shared_gain or self.shape.sinks)

    def _feed_forward_weights(self, start: int, stop: int) -> Iterator[tuple[torch.Tensor, ...]]:
        for low in range(start, stop, _CHUNK):
            rows = slice(low, min(low + _CHUNK, stop))
            yield from zip(
                *(self.get_parameter(name)[rows].unbind() for name in FEEDFORWARD), strict=True
            )

    def _attention_module(self, layer: int, row: int) -> Attention:
        module = self._attention_on_meta(layer)
        for name, own in _attention_names(self.shape).items():
            where, _, last = name.rpartition(".")
            setattr(module.get_submodule(where), last, self._shared(own, row))
        return module

    def _attention_on_meta(self, layer: int) -> Attention:
        """Layer `layer` without its numbers."""
        shape = self.shape
        return Attention(
            shape.width,
            shape.heads,
            shape.head_dim,
            pattern=self.design.cycle[layer % len(self.design.cycle)],
            prob_map=self.design.probability,
            position=inside_attention(self.design.position)[0],
            tokens=shape.tokens + shape.bos,
            sinks=shape.sinks,
            scale=1.0,
            device="meta",
        )

    def _feed_forward_module(self, row: int) -> FeedForward:
        module = FeedForward(self.shape.width, self.shape.hidden, device="meta")
        module.up_proj.weight = self._shared("up_weight", row)
        module.up_proj.bias = self._shared("up_bias", row)
        module.down_proj.weight = self._shared("down_weight", row)
        module.down_proj.bias = self._shared("down_bias", row)
        return module

    def _shared(self, name: str, row: int) -> nn.Parameter:
        return nn.Parameter(self.get_parameter(name).detach()[row])


def _attention_names(shape: StackShape) -> dict[str, str]:
    """The parameters of an Attention, and what they are called in a Stack."""
    names = {"q_proj.bias": "q_bias"} | {f"{side}_proj.weight": f"{side}_weight" for side in "qkvo"}
    names |= {f"position.{name}": inside_name(name) for name, _ in shape.inside}
    return names | ({"sink": "sink"} if shape.sinks else {})


def _base(design: Design) -> Position:
    return design.position.base if isinstance(design.position, URPE) else design.position


def _segments(halves: torch.Tensor, shape: StackShape) -> list[tuple[int, int, int, int]]:
    """(layer, attention row or -1, first and last+1 feed-forward row), in the order of running.

    Each attention half starts a segment; the feed-forward rows up to the next one follow.
    """
    for half, size in ((0, shape.attention_layers), (1, shape.feedforward_layers)):
        rows = halves[:, half]
        if not torch.equal(rows[rows >= 0], torch.arange(size, dtype=rows.dtype)):
            raise InvalidArgument("tensor 'halves' does not count the layers one by one")
    starts = (halves[:, 0] >= 0).nonzero().flatten().tolist()
    starts = starts if starts and starts[0] == 0 else [0, *starts]
    done = torch.cat([torch.zeros(1, dtype=torch.int64), (halves[:, 1] >= 0).cumsum(0)]).tolist()
    return [
        (layer, int(halves[layer, 0]), done[layer], done[following])
        for layer, following in zip(starts, [*starts[1:], shape.layers], strict=True)
    ]
