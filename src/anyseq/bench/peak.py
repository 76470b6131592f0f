"""How much memory a computation needs on top of its inputs: measured in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from statistics import median
from typing import Any

import torch

from anyseq.base import extra_bytes, seconds
from anyseq.bench.contestants import Run, anyseq_operator, urpe
from anyseq.patterns import pattern_from_dict


def peak(case: dict[str, Any], threads: int) -> dict[str, float]:
    """seconds, the median of some, and extra_bytes of a training step, forward and backward.

    case: {"tokens": n, "pattern": its dictionary} or {"tokens": n, "urpe": "anyseq"}; with
    "forward": backend it is only the forward pass of that backend.
    """
    command = [sys.executable, "-m", "anyseq.bench.peak", json.dumps(case), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def _build(case: dict[str, Any]) -> Run:
    if "urpe" in case:
        return urpe(case["urpe"], case["tokens"])
    backend = case.get("forward", "auto")
    return anyseq_operator(pattern_from_dict(case["pattern"]), backend, case["tokens"])


def measure(case: dict[str, Any]) -> dict[str, float]:
    """The same in this process, whose memory may include leftovers."""
    run = _build(case)
    work, rounds = (run.infer, 15) if "forward" in case else (run.train, 3)
    extra = extra_bytes(work)
    return {"seconds": median(seconds(work) for _ in range(rounds)), "extra_bytes": extra}


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[2]))
    sys.stdout.write(json.dumps(measure(json.loads(sys.argv[1]))))
