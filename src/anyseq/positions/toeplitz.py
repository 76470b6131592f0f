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
        shape = tuple(self.coefficients.shape)
        if len(shape) != 2 or shape[1] % 2 == 0:
            raise InvalidArgument(
                f"coefficients of shape {shape}: expected (heads, 2n-1), an odd number of offsets"
            )

    def dense(self, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        """(H, N, M): the entries for query indices `rows` (N,) and key indices `columns` (M,)."""
        reach = self.coefficients.shape[1] // 2
        offset = rows[:, None] - columns[None, :]
        if offset.numel() and int(offset.abs().max()) > reach:
            raise InvalidArgument(
                f"coefficients cover offsets up to {reach}, but the sequence has offset "
                f"{int(offset.abs().max())}; give a table with more coefficients"
            )
        return self.coefficients[:, offset + reach]
