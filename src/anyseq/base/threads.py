"""Work shared out to threads in which torch runs on one thread each.

Every operator of torch that uses several threads waits for all of them at its end. Where many small
operators follow one another and other work takes a core, this waiting dominates. Here a thread
takes the next piece of work when it is done with one, and no thread waits before the end.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import torch

_pools: dict[int, ThreadPoolExecutor] = {}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)  # its threads stayed with the parent


def share_out(work: Callable[[int], None], tasks: int, threads: int) -> None:
    """work(0), ..., work(tasks - 1), in no order that can be relied on, without gradients, on as
    many threads, this one among them."""
    threads = min(threads, tasks)
    if threads <= 1 or _setters() is None:
        for number in range(tasks):
            work(number)
        return
    numbers, inference = count(), torch.is_inference_mode_enabled()

    def take() -> None:
        with one_thread(), torch.inference_mode(inference), torch.no_grad():
            while (number := next(numbers)) < tasks:
                work(number)

    if threads not in _pools:
        _pools[threads] = ThreadPoolExecutor(threads - 1, thread_name_prefix="anyseq")
    helpers: list[Future[None]] = [_pools[threads].submit(take) for _ in range(threads - 1)]
    try:
        take()
    finally:
        for helper in helpers:  # who has not begun has nothing left to do, and is not waited for
            if not helper.cancel():
                helper.result()


@contextmanager
def one_thread() -> Iterator[None]:
    """Within, torch and its BLAS run on one thread in this thread of Python; others are left alone.
    (torch.set_num_threads would tell the BLAS of all threads.) Where torch is not built on OpenMP
    and MKL, nothing changes."""
    torch.get_num_threads()  # a new thread asks for its number at its first operator, not later
    setters = _setters()
    if setters is None:
        yield
        return
    openmp, get_openmp, blas = setters
    before = get_openmp()
    openmp(1)
    blas_before = blas(1)
    try:
        yield
    finally:
        openmp(before)
        blas(blas_before)


@cache
def _setters() -> tuple[Any, Any, Any] | None:
    """omp_set_num_threads, omp_get_max_threads and MKL's own, each for the calling thread; None
    where torch is not built on them."""
    path = Path(torch.__file__).with_name("lib") / "libtorch_cpu.so"
    try:
        library = ctypes.CDLL(str(path))
        return (
            library.omp_set_num_threads,
            library.omp_get_max_threads,
            library.MKL_Set_Num_Threads_Local,
        )
    except (OSError, AttributeError):
        return None
