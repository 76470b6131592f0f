"""Let one process at a time work in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anyseq.errors import FileProblem, MissingExtra

try:
    from filelock import FileLock, Timeout
except ImportError as problem:
    raise MissingExtra('experiments need filelock: pip install "anyseq[experiments]"') from problem


@contextmanager
def locked(folder: Path, *, wait: bool) -> Iterator[None]:
    """No other process is inside with the same folder; later ones wait or get an error.

    The lock is the kernel's, on an empty file: it ends with its process, however that ends.
    """
    lock = FileLock(folder / ".lock", blocking=wait)
    try:
        lock.acquire()
    except Timeout as problem:
        raise FileProblem(
            f"{str(folder)!r}: another process is running this; wait for it, or choose another "
            "--out"
        ) from problem
    except OSError as problem:
        raise FileProblem(f"{str(folder)!r} cannot be locked: {problem}") from problem
    try:
        yield
    finally:
        lock.release()
