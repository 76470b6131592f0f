"""The compiled kernel, if there is one here, and the BLAS it multiplies with.

The package is built with the kernel for several instruction sets, where there is a compiler; the
best one that this machine can run is loaded. ANYSEQ_NATIVE=0 leaves it alone.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sysconfig
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch

_NAMES = {"base": "for any machine", "v3": "AVX2", "v4": "AVX-512"}
_LEVELS = {"AVX512": ("v4", "v3", "base"), "AVX2": ("v3", "base")}


class Blas(NamedTuple):
    """Addresses of functions. threads: sets the calling thread's number, gives the one before; 0 if
    there is none."""

    name: str
    sgemm: int
    dgemm: int
    threads: int


class Native(NamedTuple):
    """The kernel: `run[dtype](call, backward)`."""

    level: str
    library: ctypes.CDLL
    blas: Blas
    openmp: int  # the address of GOMP_parallel, 0 if there is none


def load() -> Native | str:
    """The kernel, or why there is none."""
    if os.environ.get("ANYSEQ_NATIVE") == "0":
        return "ANYSEQ_NATIVE=0"
    blas = torch_blas() or scipy_blas()
    if blas is None:
        return "neither torch nor SciPy exports a BLAS"
    reason = "it was not compiled when anyseq was installed (no C++ compiler)"
    for level in levels():
        path = Path(__file__).with_name(f"_{level}{sysconfig.get_config_var('EXT_SUFFIX')}")
        if path.exists():
            try:
                return Native(level, opened(path), blas, torch_openmp())
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
    return f"{_NAMES[found.level]}, BLAS of {found.blas.name}"


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


@cache
def torch_blas() -> Blas | None:
    """That of torch, if its library exports it, as builds for x86 with MKL do."""
    library = _torch_library()
    if library is None:
        return None
    try:
        # The setter of one thread only. torch.set_num_threads would change it for all.
        return Blas(
            "torch (MKL)",
            _address(library.sgemm_),
            _address(library.dgemm_),
            _address(library.MKL_Set_Num_Threads_Local),
        )
    except AttributeError:
        return None


def torch_openmp() -> int:
    """Torch's OpenMP, if it is GNU's or one with the same entry."""
    entry = getattr(_torch_library(), "GOMP_parallel", None)
    return 0 if entry is None else _address(entry)


@cache
def _torch_library() -> ctypes.CDLL | None:
    path = Path(torch.__file__).with_name("lib") / "libtorch_cpu.so"
    return ctypes.CDLL(str(path)) if path.exists() else None


@cache
def scipy_blas() -> Blas | None:
    """SciPy's, which every SciPy exports to Cython."""
    from scipy.linalg import cython_blas

    name = ctypes.pythonapi.PyCapsule_GetName
    name.argtypes, name.restype = (ctypes.py_object,), ctypes.c_char_p
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.argtypes, pointer.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
    capsules = [cython_blas.__pyx_capi__[gemm] for gemm in ("sgemm", "dgemm")]
    single, double = (pointer(capsule, name(capsule)) for capsule in capsules)
    return Blas("SciPy", single, double, 0)


def _address(function: object) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


_FOUND = load()
_MISSING = _FOUND if isinstance(_FOUND, str) else None
