"""Patterns on arrays of two, three or more axes, whose cells are tokens in row order.

Cell (c_0, ..., c_(d-1)) of an array of shape (L_0, ..., L_(d-1)) is token
(...(c_0 L_1 + c_1) L_2 + ...) + c_(d-1): the last axis runs fastest, as `x.flatten` has it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod

import torch

from anyseq.base import array_shape, at_least_one, one_of, whole
from anyseq.errors import InvalidArgument
from anyseq.patterns.blocks import BlockBounds, MaskMod
from anyseq.patterns.pattern import Pattern

_PATCH = 64  # queries of a neighbourhood, about, that are looked at together
_PAIRS = 1 << 22  # that are counted in one go

Span = tuple[int, int]
"""The cells of an axis from the first to before the last."""


@dataclass(frozen=True)
class GridPattern(Pattern):
    """The base of these patterns. There is a rule for each axis; i attends to j where all of them
    allow it.
    """

    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", array_shape("shape", self.shape))

    @abstractmethod
    def sees(self, axis: int, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        """Whether cell i of an axis attends to cell j of it."""

    @abstractmethod
    def spans(self, axis: int) -> list[tuple[Span, Span]]:
        """An axis cut into pieces: some cells, and the cells that they attend to, and maybe
        more."""

    @property
    def natural_length(self) -> int:
        return prod(self.shape)

    def at(self, n: int) -> MaskMod:
        if n != self.natural_length:
            raise InvalidArgument(
                f"shape={self.shape}: {self.natural_length} tokens, the sequence has {n}"
            )

        def mask_mod(
            b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor
        ) -> torch.Tensor:
            allowed = torch.ones((), dtype=torch.bool, device=i.device)
            for axis in reversed(range(len(self.shape))):
                length = self.shape[axis]
                allowed = allowed & self.sees(axis, i % length, j % length)
                i, j = i // length, j // length
            return allowed

        return mask_mod

    def patches(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """All tokens, box by box: the tokens of a box, and those of a larger box that has all
        tokens they attend to, as indices in row order."""
        for boxes in product(*(self.spans(axis) for axis in range(len(self.shape)))):
            queries, keys = zip(*boxes, strict=True)
            yield self._box(queries), self._box(keys)

    def blocks(self, n: int, size: int) -> BlockBounds:
        """Pairs are counted patch by patch, without the whole mask."""
        blocks, mask_mod = -(-n // size), self.at(n)
        zero = torch.zeros((), dtype=torch.int64)
        count = torch.zeros(blocks, blocks, dtype=torch.int64)
        for queries, keys in self.patches():
            columns, of_key = (keys // size).unique(return_inverse=True)
            for some in queries.split(max(1, _PAIRS // len(keys))):
                rows, of_query = (some // size).unique(return_inverse=True)
                seen = mask_mod(zero, zero, some[:, None], keys[None, :]).int()
                by_row = seen.new_zeros(len(rows), len(keys)).index_add_(0, of_query, seen)
                both = seen.new_zeros(len(rows), len(columns)).index_add_(1, of_key, by_row)
                count[rows[:, None], columns] += both
        length = torch.full((blocks,), size)
        length[-1] = n - (blocks - 1) * size
        return BlockBounds.exact(count > 0, count == length[:, None] * length[None, :])

    def _box(self, spans: tuple[Span, ...]) -> torch.Tensor:
        """The tokens of a box, in row order."""
        token = torch.zeros((), dtype=torch.int64)
        for (first, last), length in zip(spans, self.shape, strict=True):
            token = token[..., None] * length + torch.arange(first, last)
        return token.flatten()


@dataclass(frozen=True)
class Neighbourhood(GridPattern):
    """Every cell attends to the cells around it: |i_a - j_a| <= radius on every axis a.

    radius: a number, or one for each axis.
    border: what happens to a neighbourhood that reaches over the border of the array. "cut": what
        lies outside is left out, so that cells near the border attend to fewer. "shift": it is
        moved inside, so that every cell attends to 2·radius + 1 cells along an axis: |clamp(i_a,
        radius, L_a - 1 - radius)
        - j_a| <= radius, which is NATTEN's with kernel_size = 2·radius + 1.
    """

    radius: int | tuple[int, ...]
    border: str = "cut"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "radius", _by_axis("radius", self.radius, self.shape))
        if one_of("border", self.border, ("cut", "shift")) == "shift":
            for radius, length in zip(self._radii, self.shape, strict=True):
                if 2 * radius + 1 > length:
                    raise InvalidArgument(
                        f"radius={self.radius} with border='shift': {2 * radius + 1} cells on an "
                        f"axis of {length}; expected a smaller radius"
                    )

    def sees(self, axis: int, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        return (self._centre(axis, i) - j).abs() <= self._radii[axis]

    def spans(self, axis: int) -> list[tuple[Span, Span]]:
        length, radius = self.shape[axis], self._radii[axis]
        side = max(1, round(_PATCH ** (1 / len(self.shape))))
        found = []
        for first in range(0, length, side):
            last = min(first + side, length)
            low, high = (self._centre(axis, torch.tensor(cell)) for cell in (first, last - 1))
            keys = max(0, int(low) - radius), min(int(high) + radius + 1, length)
            found.append(((first, last), keys))
        return found

    def _centre(self, axis: int, cell: torch.Tensor) -> torch.Tensor:
        """The middle of the neighbourhood of a cell."""
        if self.border == "cut":
            return cell
        radius = self._radii[axis]
        return cell.clamp(radius, self.shape[axis] - 1 - radius)

    @property
    def _radii(self) -> tuple[int, ...]:
        return spread(self.radius, self.shape)


@dataclass(frozen=True)
class ShiftedWindows(GridPattern):
    """Swin's windows: the array is cut into windows of `size` cells along each axis, and every cell
    attends to its own window: floor((i_a - shift) / size) = floor((j_a - shift) / size) on every
    axis a.

    That is Swin's roll by `shift`, cut into windows, with its mask: cells at the border, which a
    roll brings into one window though they are no neighbours, do not attend to each other. Where an
    axis is not a multiple of `size`, the windows at its ends are shorter.

    size, shift: a number, or one for each axis; shift < size. Swin's layers alternate between
        shift=0 and shift=size // 2.
    """

    size: int | tuple[int, ...]
    shift: int | tuple[int, ...] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "size", _by_axis("size", self.size, self.shape, least=1))
        object.__setattr__(self, "shift", _by_axis("shift", self.shift, self.shape))
        for size, shift in zip(self._sizes, self._shifts, strict=True):
            if shift >= size:
                raise InvalidArgument(
                    f"shift={self.shift}: expected less than size={self.size} on every axis"
                )

    def sees(self, axis: int, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        size, shift = self._sizes[axis], self._shifts[axis]
        return (i - shift) // size == (j - shift) // size

    def spans(self, axis: int) -> list[tuple[Span, Span]]:
        length, size, shift = self.shape[axis], self._sizes[axis], self._shifts[axis]
        borders = sorted({0, length, *range(shift, length, size)})
        return [(window, window) for window in pairwise(borders)]

    @property
    def _sizes(self) -> tuple[int, ...]:
        return spread(self.size, self.shape)

    @property
    def _shifts(self) -> tuple[int, ...]:
        return spread(self.shift, self.shape)


def spread(value: int | tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """One for each axis."""
    return value if isinstance(value, tuple) else (value,) * len(shape)


def _by_axis(
    name: str, value: object, shape: tuple[int, ...], least: int = 0
) -> int | tuple[int, ...]:
    """A number for all axes; a tuple only if they differ, so that equal patterns compare equal."""
    check = at_least_one if least else whole
    if not isinstance(value, tuple | list):
        return check(name, value)
    if len(value) != len(shape):
        raise InvalidArgument(
            f"{name}={value!r}: expected a number, or one for each of the {len(shape)} axes"
        )
    numbers = tuple(check(name, number) for number in value)
    return numbers[0] if len(set(numbers)) == 1 else numbers
