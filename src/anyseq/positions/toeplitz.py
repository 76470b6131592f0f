"""A matrix that depends on the offset i - j only, stored as its 2n-1 numbers per head."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch

from anyseq.errors import InvalidArgument

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_KEPT = 1 << 16  # entries of a matrix whose places in the table are kept for the next one


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
        # On a CPU, outside graphs: what others record may be no number at all.
        kept = type(self.coefficients) in _PLAIN and self.coefficients.device.type == "cpu"
        if kept and not torch.compiler.is_compiling() and rows * columns <= _KEPT:
            places = _kept_places(rows, columns, first_row + reach)
        else:
            places = _places(rows, columns, first_row + reach, self.coefficients.device)
        return self.coefficients[:, places]

    def check_reach(
        self, rows: int, columns: int, first_row: int, name: str = "coefficients"
    ) -> None:
        """Raise an error unless the table has all offsets of these queries and keys."""
        reach = self.coefficients.shape[1] // 2
        furthest = max(first_row + rows - 1, columns - 1 - first_row)
        if furthest > reach:
            raise InvalidArgument(
                f"{name}: the Toeplitz table covers offsets up to {reach}, but the sequence has "
                f"offset {furthest}; give a table with more coefficients"
            )


def _places(rows: int, columns: int, first: int, device: torch.device) -> torch.Tensor:
    """(rows, columns): where the entries of a matrix stand in its table; that of the first row and
    column at `first`."""
    i = torch.arange(first, first + rows, device=device)
    return i[:, None] - torch.arange(columns, device=device)


@lru_cache(maxsize=32)
@torch.inference_mode(mode=False)  # what is made while evaluating must serve training, too
def _kept_places(rows: int, columns: int, first: int) -> torch.Tensor:
    return _places(rows, columns, first, torch.device("cpu"))
