"""Of several processes on one machine, one at a time."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anyseq.errors import FileProblem


@contextmanager
def locked(folder: Path, *, wait: bool) -> Iterator[None]:
    """Nobody else is inside with the same folder; whoever comes later waits or is turned away.

    The lock is the kernel's, on an empty file: it ends with its process, however that ends.
    """
    file = folder / ".lock"
    try:
        stream = file.open("a")
    except OSError as problem:
        raise FileProblem(f"{str(file)!r} cannot be written: {problem}") from problem
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as problem:
            raise FileProblem(
                f"{str(folder)!r}: another process is running this; wait for it, or choose another "
                "--out"
            ) from problem
        except OSError as problem:
            raise FileProblem(f"{str(file)!r} cannot be locked: {problem}") from problem
        yield
