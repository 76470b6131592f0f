"""Verdicts at full size: each in a process of its own, within its time and memory.

Times are those of the processor, since other work may run beside; memory is the largest that the
whole process ever held.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

import anyseq as aq

_CHILD = """
import json, sys, time
from pathlib import Path
from anyseq.bench.check import measure

start = time.process_time()
row = measure(json.loads(sys.argv[1]))
row["processor"] = time.process_time() - start
lines = Path("/proc/self/status").read_text().splitlines()
row["peak"] = 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
print(json.dumps(row))
"""


def measured(**case: Any) -> dict[str, Any]:
    """What `anyseq bench check` finds, with the processor's seconds and the peak in bytes."""
    command = [sys.executable, "-c", _CHILD, json.dumps(case)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    row: dict[str, Any] = json.loads(done.stdout)
    return row


@pytest.mark.parametrize("pattern", [aq.BigBird(64), aq.Longformer(64), aq.Strided(256)], ids=str)
def test_65536_tokens(pattern: aq.Pattern) -> None:
    row = measured(tokens=65_536, pattern=pattern.to_dict())
    assert (row["universal"], row["layers"]) == (True, 2)
    assert row["processor"] < 15
    assert row["peak"] < 2e9


@pytest.mark.parametrize(
    ("density", "universal", "path"),
    [(0.001, False, False), (0.0025, True, True), (0.004, True, True), (0.01, True, True),
     (0.5, True, True)],
)  # fmt: skip
def test_an_arbitrary_mask_of_4096_tokens(density: float, universal: bool, path: bool) -> None:
    row = measured(tokens=4096, pattern=None, density=density)
    assert row["universal"] is universal
    assert row["path"] in (path, None)  # a search that was given up says so
    assert row["processor"] < 20
    assert row["peak"] < 2e9
