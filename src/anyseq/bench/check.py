"""`anyseq bench check`: what a verdict costs, against the number of tokens.

Every figure comes from a process of its own: the verdict in sup norm for all functions, with the
layers that all pairs need, and for the arbitrary masks also paper B's path condition.
"""

from __future__ import annotations

import json
import subprocess
import sys
from math import isqrt
from typing import Any

import torch

from anyseq.base import Progress, generator, silent
from anyseq.bench.memory import extra_bytes
from anyseq.bench.timing import seconds
from anyseq.design import Design
from anyseq.patterns import (
    BigBird,
    FromMask,
    Longformer,
    Pattern,
    Strided,
    Window,
    pattern_from_dict,
)
from anyseq.verdicts import check

_LENGTHS = (1024, 4096, 16_384, 65_536)
_MASKS = (256, 1024, 4096)
_DENSITY = 0.01  # of an arbitrary mask


def bench_check(progress: Progress = silent) -> dict[str, Any]:
    """Seconds, extra bytes and s of verdicts."""
    cases: list[dict[str, Any]] = []
    for n in _LENGTHS:
        named = [BigBird(64, globals=2), Longformer(64), Strided(isqrt(n)), Window(64)]
        cases += [{"tokens": n, "pattern": pattern.to_dict()} for pattern in named]
    cases += [{"tokens": n, "pattern": None} for n in _MASKS]
    rows = []
    for done, case in enumerate(cases):
        progress("bench check", done, len(cases))
        command = [sys.executable, "-m", "anyseq.bench.check", json.dumps(case)]
        found = subprocess.run(command, capture_output=True, text=True, check=True)
        rows.append(json.loads(found.stdout))
    progress("bench check", len(cases), len(cases))
    return {"threads": torch.get_num_threads(), "torch": torch.__version__, "verdicts": rows}


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """One verdict, in this process."""
    n = case["tokens"]
    pattern = _arbitrary(n) if case["pattern"] is None else pattern_from_dict(case["pattern"])
    answers: list[Any] = []

    def work() -> None:
        verdict = check(Design(n, pattern))
        path = None
        if case["pattern"] is None:
            path = next(one.holds for one in verdict.fixed_width if one.rule == "path")
        assert verdict.reach is not None
        answers.append((verdict.universal, verdict.reach.layers, path))

    taken: list[float] = []
    extra = extra_bytes(lambda: taken.append(seconds(work)))
    universal, layers, path = answers[0]
    return {
        "pattern": "arbitrary mask" if case["pattern"] is None else type(pattern).__name__,
        "tokens": n,
        "seconds": taken[0],
        "extra_bytes": extra,
        "universal": universal,
        "layers": layers,
        "path": path,
    }


def _arbitrary(n: int) -> Pattern:
    """A random mask with self-loops; every token sees about one in a hundred, four at least."""
    density = max(_DENSITY, 4 / n)
    mask = torch.rand(n, n, generator=generator(0)) < density
    return FromMask(mask | torch.eye(n, dtype=torch.bool))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(json.loads(sys.argv[1]))))
