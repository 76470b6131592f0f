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

KINDS = (windows, futures, packing, padding, caches, positions, batches, gradients)
PLANTED = tuple(planted for kind in KINDS for planted in kind.FAULTS)
