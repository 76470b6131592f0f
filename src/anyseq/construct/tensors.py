"""A check of tensors that come from a file."""

from __future__ import annotations

import torch

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
