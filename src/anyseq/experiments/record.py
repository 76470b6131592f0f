"""How a run was made, and its curve: what is known of it besides the metrics at its end."""

from __future__ import annotations

import os
import subprocess
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch


@dataclass
class Sitting:
    """A process that worked on a run: with what, for how long, and beside how much other work.

    commit: of anyseq, with "+" if the checkout differs from it; the version where it is installed
        otherwise.
    seconds: spent in training steps.
    load: the mean, over the checkpoints, of how many processes wanted a core in the five minutes
        before; None where the system does not count them.
    """

    commit: str
    torch: str
    threads: int
    precision: str
    cores: int
    seconds: float = 0.0
    load: float | None = None
    samples: int = 0

    @classmethod
    def now(cls, precision: str) -> Sitting:
        """A sitting that begins."""
        cores = os.cpu_count() or 1
        return cls(_commit(), torch.__version__, torch.get_num_threads(), precision, cores)

    def goes_on(self, seconds: float) -> None:
        """So many seconds more."""
        self.seconds += seconds
        if hasattr(os, "getloadavg"):
            before = (self.load or 0.0) * self.samples
            self.samples += 1
            self.load = (before + os.getloadavg()[1]) / self.samples


@dataclass(frozen=True)
class Record:
    """The sittings of a run in their order, and its curve: {"step": ..., metric: value, ...} for
    each time that it was measured on held-out batches."""

    setting: str
    seed: int
    sittings: list[dict[str, Any]]
    curve: list[dict[str, float]]

    def points(self, metric: str) -> list[tuple[int, float]]:
        """(step, value) of one metric."""
        return [(int(look["step"]), look[metric]) for look in self.curve if metric in look]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@lru_cache(maxsize=1)
def _commit() -> str:
    here = Path(__file__).parent
    try:
        known, changed = (
            subprocess.run(
                ["git", "-C", str(here), *asked], capture_output=True, text=True, check=True
            ).stdout.strip()
            for asked in (
                ("rev-parse", "--short", "HEAD"),
                ("status", "--porcelain", "--untracked-files=no", "--", str(here.parent)),
            )
        )
    except (OSError, subprocess.CalledProcessError):
        known, changed = "", ""
    return known + "+" * bool(changed) if known else f"version {version('anyseq')}"
