"""The native kernel reads and writes nothing past its arrays: each ends where memory does."""

from __future__ import annotations

import ctypes
import mmap
import signal
import subprocess
import sys
from typing import Any

import pytest
import torch

import anyseq as aq
from anyseq.ops.layout import Sizes, cover
from anyseq.ops.native.call import Arguments, Sums, run
from anyseq.ops.native.library import Native, loaded
from anyseq.ops.native.table import GRAIN, table
from ops.cases import random

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def at_the_end(given: torch.Tensor) -> torch.Tensor:
    """A copy right before a page that nobody may touch."""
    given = given.contiguous()
    size = given.numel() * given.element_size()
    room = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, room + mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert LIBC.mprotect(address + room, mmap.PAGESIZE, 0) == 0
    copy = torch.frombuffer(memory, dtype=given.dtype, count=given.numel(), offset=room - size)
    return copy.view(given.shape).copy_(given)


def step(pattern: aq.Pattern, n: int, size: int, dtype: torch.dtype, missing: int = 0) -> Sums:
    """Forward and backward with everything there is; the tiles ask for missing keys, too."""
    native = loaded()
    assert isinstance(native, Native)

    def sides(seed: int, rows: int) -> torch.Tensor:
        return at_the_end(random(1, 2, rows, size, seed=seed).to(dtype))

    q, k, v = sides(1, n), sides(2, n - missing), sides(3, n - missing)
    bias, gain = (at_the_end(random(2, 2 * n - 1, seed=seed).to(dtype)) for seed in (4, 5))
    given = Arguments(
        q, k, v, sides(6, n), at_the_end(torch.zeros(1, 2, n, dtype=dtype)),
        [table(cover(pattern, Sizes(n, n, 0), GRAIN))], 0.3, 2.0, 0.1, 7,
        mask=at_the_end(torch.ones(1, 1, n, n, dtype=torch.bool)),
        key_mask=at_the_end(torch.ones(1, n, dtype=torch.bool)),
        interval=at_the_end(torch.tensor([0, n], dtype=torch.int32).expand(1, n, 2)),
        bias=bias, gain=gain,
    )  # fmt: skip
    run(native, given)
    tables = [at_the_end(torch.zeros(1, 2, 2 * n - 1, dtype=dtype)) for _ in range(2)]
    sums = Sums(sides(8, n), None, sides(9, n), sides(9, n), sides(9, n), *tables)
    run(native, given, sums)
    return sums


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1, 64, 7])
@pytest.mark.parametrize(
    "pattern",
    [aq.Full(), aq.Causal(), aq.Star(5), aq.Strided(7), aq.BigBird(8), aq.Fixed(9)],
    ids=str,
)
def test_nothing_past_the_end(pattern: aq.Pattern, size: int, dtype: torch.dtype) -> None:
    for n in (1, 37, 130):
        if n == 1 and not isinstance(pattern, aq.Full | aq.Causal):
            continue
        sums = step(pattern, n, size, dtype)
        assert all(bool(one.isfinite().all()) for one in sums if one is not None)


def test_one_key_too_many_would_be_seen() -> None:
    """The guard itself: a key past the end is an end of the process."""
    code = (
        "import torch, anyseq as aq; from ops.test_native_guard import step;"
        "step(aq.Full(), 64, 64, torch.float32, missing=1)"
    )
    environment: dict[str, Any] = {"cwd": "tests", "capture_output": True, "check": False}
    done = subprocess.run([sys.executable, "-c", code], **environment)
    assert done.returncode == -signal.SIGSEGV
