"""Tables of values: a check of what comes from a file, and their size."""

from __future__ import annotations

import torch

from anyseq.base import power_of_two_at_least
from anyseq.errors import InvalidArgument


def check_tensor(
    name: str,
    tensor: torch.Tensor,
    shape: tuple[int | None, ...],
    dtype: torch.dtype = torch.float64,
) -> None:
    """Raise unless it has this shape, None for any length, and this type."""
    came = tuple(tensor.shape)
    fits = len(came) == len(shape) and all(
        wanted in (length, None) for length, wanted in zip(came, shape, strict=True)
    )
    if not fits or tensor.dtype != dtype:
        expected = ", ".join("any" if length is None else str(length) for length in shape)
        raise InvalidArgument(
            f"tensor {name!r} has shape {came} and {tensor.dtype}, expected ({expected}) and "
            f"{dtype}"
        )


def scale_of(values: torch.Tensor) -> float:
    """The power of two by which the network that has this table divides its values."""
    largest = float(values.abs().max())
    return power_of_two_at_least(largest) if largest else 1.0
