"""Every planted fault."""

from __future__ import annotations

from models.faults.planted import (
    batches,
    caches,
    futures,
    gradients,
    packing,
    padding,
    positions,
    windows,
)

PLANTED = tuple(
    planted
    for kind in (windows, futures, packing, padding, caches, positions, batches, gradients)
    for planted in kind.FAULTS
)
