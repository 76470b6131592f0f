"""Positions inside attention: on queries and keys, as a bias, as a gain.

Learned tables are made for so many tokens; a shorter sequence uses the middle of them.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from anyseq.errors import InvalidArgument
from anyseq.nn.input_position import INIT_STD
from anyseq.positions import (
    URPE,
    ALiBi,
    GridBias,
    GridToeplitz,
    NoPosition,
    Place,
    Position,
    RelativeBias,
    Rotary,
    Shaw,
    T5Bias,
    Toeplitz,
)


class AttentionPosition(nn.Module):
    """What a position does in one attention layer; this base does nothing.

    Queries have the positions first, first + 1, ..., keys 0, 1, ..., keys - 1.

    needs_weights: whether values are opened, so that keys stand for positions without a gap.
    """

    needs_weights = False

    def turn(self, x: torch.Tensor, first: int) -> torch.Tensor:
        """Queries or keys (batch, heads, n, size) as they enter the scores."""
        return x

    def bias(
        self, q: torch.Tensor, scale: float, keys: int, first: int
    ) -> torch.Tensor | Toeplitz | GridToeplitz | None:
        """What is added to the scores q·k scale of the queries q (batch, heads, n, size)."""
        return None

    def gain(self) -> Toeplitz | None:
        """What the weights are multiplied with."""
        return None

    def open_values(self, v: torch.Tensor) -> torch.Tensor:
        """The values (batch, heads, keys, size) that the operator is to mix."""
        return v

    def close_values(self, mixed: torch.Tensor, size: int, first: int) -> torch.Tensor:
        """The output (batch, heads, n, size), from what the operator made of `open_values`."""
        return mixed


class Gain(nn.Module):
    """C of URPE: one number per head and offset, all 1 at the start."""

    def __init__(
        self,
        heads: int,
        tokens: int,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.ones(heads, 2 * tokens - 1, dtype=dtype, device=device))

    def forward(self) -> Toeplitz:
        """C."""
        return Toeplitz(self.table)


class _Rotary(AttentionPosition):
    def __init__(self, position: Rotary, head_dim: int) -> None:
        super().__init__()
        if head_dim % 2:
            raise InvalidArgument(
                f"head_dim={head_dim}: Rotary turns pairs of features; expected an even number"
            )
        self.position = position

    def turn(self, x: torch.Tensor, first: int) -> torch.Tensor:
        return self.position.turn(x, first)


class _ALiBi(AttentionPosition):
    def __init__(self, position: ALiBi, heads: int) -> None:
        super().__init__()
        self.position, self.slopes = position, position.slopes(heads)

    def bias(self, q: torch.Tensor, scale: float, keys: int, first: int) -> Toeplitz:
        distance = self.position.label(_offsets(q, keys, first)).to(q.dtype)
        return Toeplitz(-q.new_tensor(self.slopes)[:, None] * distance)


class _T5Bias(AttentionPosition):
    def __init__(self, position: T5Bias, table: torch.Tensor) -> None:
        super().__init__()
        self.position, self.table = position, nn.Parameter(table)

    def bias(self, q: torch.Tensor, scale: float, keys: int, first: int) -> Toeplitz:
        return Toeplitz(self.table[:, self.position.label(_offsets(q, keys, first))])


class _RelativeBias(AttentionPosition):
    def __init__(self, table: torch.Tensor) -> None:
        super().__init__()
        self.table = nn.Parameter(table)

    def bias(self, q: torch.Tensor, scale: float, keys: int, first: int) -> Toeplitz:
        return Toeplitz(self.table)


class _GridBias(AttentionPosition):
    def __init__(self, table: torch.Tensor) -> None:
        super().__init__()
        self.table = nn.Parameter(table)

    def bias(self, q: torch.Tensor, scale: float, keys: int, first: int) -> GridToeplitz:
        return GridToeplitz(self.table)


class _Shaw(AttentionPosition):
    """Values need the weights themselves, w = w I: the identity goes along as further features of
    the values, so every pattern, map and dropout holds for both. That costs tokens³ per head."""

    def __init__(self, position: Shaw, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()
        self.position, self.needs_weights = position, True
        self.keys, self.values = nn.Parameter(keys), nn.Parameter(values)

    def bias(self, q: torch.Tensor, scale: float, keys: int, first: int) -> torch.Tensor:
        scores = q @ self.keys.T * scale  # (batch, heads, n, labels)
        label = self._label(q, keys, first)
        return scores.gather(-1, label.expand(*q.shape[:2], *label.shape))

    def open_values(self, v: torch.Tensor) -> torch.Tensor:
        eye = torch.eye(v.shape[2], dtype=v.dtype, device=v.device)
        return torch.cat([v, eye.expand(*v.shape[:2], -1, -1)], dim=-1)

    def close_values(self, mixed: torch.Tensor, size: int, first: int) -> torch.Tensor:
        content, weights = mixed[..., :size], mixed[..., size:]
        label = self._label(mixed, weights.shape[-1], first).expand_as(weights)
        by_label = weights.new_zeros(*weights.shape[:-1], len(self.values))
        return content + by_label.scatter_add(-1, label, weights) @ self.values

    def _label(self, rows: torch.Tensor, keys: int, first: int) -> torch.Tensor:
        """(n, keys) the row of the tables for each pair."""
        i = torch.arange(first, first + rows.shape[2], device=rows.device)
        return self.position.label(i[:, None] - torch.arange(keys, device=rows.device))


class _WithGain(AttentionPosition):
    """Another position, and a gain."""

    def __init__(self, base: AttentionPosition, gain: Gain) -> None:
        super().__init__()
        self.base, self.own_gain = base, gain
        self.needs_weights = base.needs_weights

    def turn(self, x: torch.Tensor, first: int) -> torch.Tensor:
        return self.base.turn(x, first)

    def bias(
        self, q: torch.Tensor, scale: float, keys: int, first: int
    ) -> torch.Tensor | Toeplitz | GridToeplitz | None:
        return self.base.bias(q, scale, keys, first)

    def gain(self) -> Toeplitz:
        table: Toeplitz = self.own_gain()
        return table

    def open_values(self, v: torch.Tensor) -> torch.Tensor:
        return self.base.open_values(v)

    def close_values(self, mixed: torch.Tensor, size: int, first: int) -> torch.Tensor:
        return self.base.close_values(mixed, size, first)


def inside_attention(position: Position) -> tuple[Position, bool]:
    """What a position does inside each attention layer, and whether besides that all layers share
    a table of gains."""
    match position:
        case URPE():
            base = inside_attention(position.base)[0]
            return (base, True) if position.shared else (replace(position, base=base), False)
        case _ if Place.INPUT in position.acts_in:
            return NoPosition(), False
    return position, False


def attention_position(
    position: Position,
    *,
    heads: int,
    head_dim: int,
    tokens: int | None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> AttentionPosition:
    """The module for what a position does inside one attention layer.

    tokens: the longest sequence; needed where there is a learned number for every offset.
    """

    def normal(*shape: int) -> torch.Tensor:
        table = torch.empty(*shape, dtype=dtype, device=device)
        # on the meta device there are no numbers, and drawing them would load torch's compiler
        return table if table.is_meta else nn.init.normal_(table, std=INIT_STD)

    match position:
        case Rotary():
            return _Rotary(position, head_dim)
        case ALiBi():
            return _ALiBi(position, heads)
        case T5Bias():
            return _T5Bias(position, normal(heads, position.buckets))
        case RelativeBias():
            return _RelativeBias(normal(heads, 2 * _needed(tokens, position) - 1))
        case GridBias():
            return _GridBias(normal(heads, *(2 * length - 1 for length in position.shape)))
        case Shaw():
            labels = 2 * position.max_distance + 1
            return _Shaw(position, normal(labels, head_dim), normal(labels, head_dim))
        case URPE():
            base = attention_position(
                position.base,
                heads=heads,
                head_dim=head_dim,
                tokens=tokens,
                dtype=dtype,
                device=device,
            )
            return _WithGain(
                base, Gain(heads, _needed(tokens, position), dtype=dtype, device=device)
            )
        case _:
            return AttentionPosition()


def _needed(tokens: int | None, position: Position) -> int:
    if tokens is None:
        raise InvalidArgument(
            f"tokens=None: {type(position).__name__} learns a number for every offset; give the "
            "length of the longest sequence"
        )
    return tokens


def _offsets(q: torch.Tensor, keys: int, first: int) -> torch.Tensor:
    """1-n, ..., n-1, for the n that covers every offset of these queries and keys."""
    n = max(keys, first + q.shape[2])
    return torch.arange(1 - n, n, device=q.device)
