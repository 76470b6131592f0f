"""Importing transformers' models in less time, or saying that transformers is missing."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from anyseq.errors import MissingExtra


@contextmanager
def quick_import() -> Iterator[None]:
    """Turns off garbage collection during the import: what is imported stays, and scanning it again
    and again takes a third of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] != "transformers":
            raise
        raise MissingExtra(
            'Hugging Face models and configs need transformers: pip install "anyseq[hf]"'
        ) from problem
    finally:
        if enabled:
            gc.enable()
