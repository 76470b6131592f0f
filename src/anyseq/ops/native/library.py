"""The compiled kernel, if there is one here.

The package is built with the kernel for several instruction sets, where there is a compiler; the
best one that this machine can run is loaded. ANYSEQ_NATIVE=0 leaves it alone.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sysconfig
from pathlib import Path
from typing import NamedTuple

import torch

_NAMES = {"base": "for any machine", "v3": "AVX2", "v4": "AVX-512"}
_LEVELS = {"AVX512": ("v4", "v3", "base"), "AVX2": ("v3", "base")}


class Native(NamedTuple):
    """The kernel, compiled for an instruction set."""

    level: str
    library: ctypes.CDLL
    openmp: int  # the address of GOMP_parallel, 0 if there is none


def load() -> Native | str:
    """The kernel, or why there is none."""
    if os.environ.get("ANYSEQ_NATIVE") == "0":
        return "ANYSEQ_NATIVE=0"
    reason = "it was not compiled when anyseq was installed (no C++ compiler)"
    for level in levels():
        path = Path(__file__).with_name(f"_{level}{sysconfig.get_config_var('EXT_SUFFIX')}")
        if path.exists():
            try:
                return Native(level, opened(path), torch_openmp())
            except OSError as error:
                reason = f"it does not load: {error}"
    return reason


def loaded() -> Native | str:
    """The kernel that was found when anyseq was imported, or why there is none."""
    return _FOUND


def missing() -> str | None:
    """Why there is no kernel here; None if there is one. torch.compile can trace this."""
    return _MISSING


def native_text() -> str:
    """Which kernel is in use, or why none is."""
    found = loaded()
    if isinstance(found, str):
        return f"none: {found}"
    return _NAMES[found.level]


def levels() -> tuple[str, ...]:
    """The instruction sets of this machine that the kernel is compiled for, best first."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return ("base",)
    return _LEVELS.get(torch.backends.cpu.get_cpu_capability(), ("base",))


def opened(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    for name in ("float", "double"):
        function = getattr(library, f"anyseq_attention_{name}")
        function.argtypes, function.restype = (ctypes.c_void_p, ctypes.c_int), ctypes.c_int
    return library


def torch_openmp() -> int:
    """The address of GOMP_parallel in torch's library, 0 if its OpenMP has no such entry."""
    path = Path(torch.__file__).with_name("lib") / "libtorch_cpu.so"
    entry = getattr(ctypes.CDLL(str(path)), "GOMP_parallel", None) if path.exists() else None
    return 0 if entry is None else ctypes.cast(entry, ctypes.c_void_p).value or 0


_FOUND = load()
_MISSING = _FOUND if isinstance(_FOUND, str) else None
