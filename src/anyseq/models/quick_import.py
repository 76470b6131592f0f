"""Importing transformers' models in less time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quick_import() -> Iterator[None]:
    """Turns off garbage collection during the import: what is imported stays, and scanning it again
    and again takes a third of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
