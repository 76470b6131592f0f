"""A matrix that depends on the offset i - j only, stored as its 2n-1 numbers per head."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from anyseq.errors import InvalidArgument


@dataclass(frozen=True, eq=False)
class Toeplitz:
    """Coefficients (H, 2n-1): entry (i, j) of head h is `coefficients[h, i - j + n - 1]`.

    The middle coefficient belongs to offset 0, so a table made for a longer n serves shorter
    sequences as it is. Usable as `bias` or `gain` of `anyseq.attention`.
    """

    coefficients: torch.Tensor

    def __post_init__(self) -> None:
        if not isinstance(self.coefficients, torch.Tensor):
            kind = type(self.coefficients).__name__
            raise InvalidArgument(f"coefficients: {kind}, expected a tensor (heads, 2n-1)")
        shape = tuple(self.coefficients.shape)
        if len(shape) != 2 or shape[1] % 2 == 0:
            raise InvalidArgument(
                f"coefficients of shape {shape}: expected (heads, 2n-1), an odd number of offsets"
            )

    def dense(self, rows: int, columns: int, first_row: int = 0) -> torch.Tensor:
        """(H, rows, columns): the entries of the queries first_row, first_row + 1, ..., and of the
        keys 0, 1, ..."""
        self.check_reach(rows, columns, first_row)
        reach = self.coefficients.shape[1] // 2
        if torch.compiler.is_compiling():  # windows would fix the lengths that a graph serves
            i = torch.arange(first_row, first_row + rows, device=self.coefficients.device)
            j = torch.arange(columns, device=self.coefficients.device)
            return self.coefficients[:, i[:, None] - j[None, :] + reach]
        # Row i holds the coefficients from i + reach down to i + reach - columns + 1: a window of
        # the reversed table, one place further to the left in every row. Its gradient is a sum of
        # windows, several times quicker than that of a look-up.
        last = reach - first_row  # where the window of the first row begins
        windows = self.coefficients.flip(1).unfold(1, columns, 1)
        return windows[:, last - rows + 1 : last + 1].flip(1)

    def check_reach(
        self, rows: int, columns: int, first_row: int, name: str = "coefficients"
    ) -> None:
        """An error, unless the table has all offsets of these queries and keys."""
        reach = self.coefficients.shape[1] // 2
        furthest = max(first_row + rows - 1, columns - 1 - first_row)
        if furthest > reach:
            raise InvalidArgument(
                f"{name}: the Toeplitz table covers offsets up to {reach}, but the sequence has "
                f"offset {furthest}; give a table with more coefficients"
            )
