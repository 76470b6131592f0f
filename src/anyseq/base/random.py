"""Random numbers from separate generators: torch's global state is never read or set."""

from __future__ import annotations

import hashlib

import torch


def generator(seed: int) -> torch.Generator:
    """A CPU generator; same seed, same numbers."""
    return torch.Generator().manual_seed(seed)


def uniform(*shape: int, rng: torch.Generator) -> torch.Tensor:
    """Independent uniform numbers in [0, 1), float64, of the given shape."""
    return torch.rand(*shape, generator=rng, dtype=torch.float64)


def seed_of(*names: int | str) -> int:
    """A seed for a place such as (seed, "data", step): equal names, equal seed.

    torch's CPU generator uses 32 bits of a seed, so names are hashed and not packed side by side.
    """
    return int.from_bytes(hashlib.sha256(repr(names).encode()).digest()[:4], "big")
