"""How much memory a piece of work needs on top of what its process holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def has_high_water_mark() -> bool:
    """Whether the kernel reports, as Linux does, the peak memory of a process."""
    return _RESET.exists()


def extra_bytes(work: Callable[[], object]) -> int:
    """The high-water mark while it runs, less what was held before. The kernel counts pages in
    batches, so work of less than a megabyte may seem to free memory; that counts as none."""
    _RESET.write_text("5")  # the mark starts again here
    before = _kilobytes("VmRSS")
    work()
    return max(0, 1024 * (_kilobytes("VmHWM") - before))


def _kilobytes(field: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1])
