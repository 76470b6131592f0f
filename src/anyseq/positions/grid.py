"""A bias that depends on the offset of two cells of an array, whose cells are tokens in row order.

Cell (c_0, ..., c_(d-1)) of an array of shape (L_0, ..., L_(d-1)) is token
(...(c_0 L_1 + c_1) L_2 + ...) + c_(d-1): the last axis runs fastest, as `x.flatten` has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch

from anyseq.base import array_shape
from anyseq.errors import InvalidArgument
from anyseq.positions.position import Place, Position


@dataclass(frozen=True)
class GridBias(Position):
    """One learned scalar per head and offset of cells: B_ij = b[i_0 - j_0, ..., i_(d-1) - j_(d-1)],
    (2 L_0 - 1)···(2 L_(d-1) - 1) numbers a head, as in Swin.

    shape: the lengths (L_0, ..., L_(d-1)) of the axes of the array.
    """

    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", array_shape("shape", self.shape))

    @property
    def acts_in(self) -> frozenset[Place]:
        return frozenset({Place.BIAS})

    @property
    def natural_length(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True, eq=False)
class GridToeplitz:
    """Coefficients (H, 2 L_0 - 1, ..., 2 L_(d-1) - 1): entry (i, j) of head h is
    `coefficients[h, i_0 - j_0 + L_0 - 1, ..., i_(d-1) - j_(d-1) + L_(d-1) - 1]`, for the
    coordinates of tokens i and j in an array of shape (L_0, ..., L_(d-1)).

    A sequence may end before the array does. Usable as `bias` of `anyseq.attention`.
    """

    coefficients: torch.Tensor

    def __post_init__(self) -> None:
        if not isinstance(self.coefficients, torch.Tensor):
            kind = type(self.coefficients).__name__
            raise InvalidArgument(
                f"coefficients: {kind}, expected a tensor (heads, 2a-1, 2b-1, ..)"
            )
        shape = tuple(self.coefficients.shape)
        if len(shape) < 2 or not all(length % 2 for length in shape[1:]):
            raise InvalidArgument(
                f"coefficients of shape {shape}: expected (heads, 2a-1, 2b-1, ...) for an array of "
                "shape (a, b, ...), an odd number of offsets on each axis"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of tokens of the array."""
        return tuple((offsets + 1) // 2 for offsets in self.coefficients.shape[1:])

    @property
    def table(self) -> torch.Tensor:
        """(H, K): entry (i, j) is at place `places[i] - places[j] + K // 2`."""
        return self.coefficients.flatten(1)

    @property
    def places(self) -> torch.Tensor:
        """(tokens,) int64, see `on_a_line`."""
        return on_a_line(self.shape).to(self.coefficients.device)

    def dense(self, rows: int, columns: int, first_row: int = 0) -> torch.Tensor:
        """(H, rows, columns): the entries of the queries first_row, first_row + 1, ..., and of the
        keys 0, 1, ..."""
        self.check_reach(rows, columns, first_row)
        table, places = self.table, self.places
        queries = places[first_row : first_row + rows] + table.shape[1] // 2
        at = (queries[:, None] - places[:columns]).flatten()
        # indexing would do, but its gradient takes ten times as long
        return table.index_select(1, at).view(len(table), rows, columns)

    def check_reach(
        self, rows: int, columns: int, first_row: int, name: str = "coefficients"
    ) -> None:
        """Raise an error unless all these queries and keys are cells of the array."""
        span = max(first_row + rows, columns)
        if span > prod(self.shape):
            raise InvalidArgument(
                f"{name}: an array of shape {self.shape} has {prod(self.shape)} tokens, but the "
                f"sequence has {span}"
            )


def on_a_line(shape: tuple[int, ...]) -> torch.Tensor:
    """(tokens,) int64: cells put on a line so that different offsets have different differences.

    Cell c is at Σ_a c_a Π_(b>a) (2 L_b - 1). A difference has the digits i_a - j_a, of absolute
    value below L_a, to the bases 2 L_a - 1: each of the Π_a (2 L_a - 1) = K offsets has one of the
    numbers -(K // 2), ..., K // 2 of its own.
    """
    place = torch.zeros((), dtype=torch.int64)
    for length in shape:
        place = place[..., None] * (2 * length - 1) + torch.arange(length)
    return place.flatten()
