"""Random numbers from generators of our own: torch's global state is never read or set."""

from __future__ import annotations

import torch


def generator(seed: int) -> torch.Generator:
    """A CPU generator; same seed, same numbers."""
    return torch.Generator().manual_seed(seed)


def uniform(*shape: int, rng: torch.Generator) -> torch.Tensor:
    """Independent uniform numbers in [0, 1), float64, of the given shape."""
    return torch.rand(*shape, generator=rng, dtype=torch.float64)
