"""`anyseq bench check`: the cost of a verdict against the number of tokens.

Every figure comes from a separate process: the verdict for all functions, in sup norm with absolute
positions unless its name says otherwise, with the layers until all pairs are reached, and for the
arbitrary masks also paper B's path condition.
"""

from __future__ import annotations

import json
import subprocess
import sys
from math import isqrt
from typing import Any

import torch

from anyseq.base import Progress, extra_bytes, generator, seconds, silent
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
from anyseq.positions import parse_position
from anyseq.verdicts import check

_LENGTHS = (1024, 4096, 16_384, 65_536)
_MASKS = (256, 1024, 4096)
_DENSITY = 0.01  # of an arbitrary mask
# What tells positions apart by the graph: gains in sup norm, turned queries and keys in L^p.
_RELATIVE = (("urpe", "sup"), ("rope", "lp"))


def bench_check(progress: Progress = silent) -> dict[str, Any]:
    """Seconds, extra bytes and s of verdicts."""
    cases: list[dict[str, Any]] = []
    for n in _LENGTHS:
        named = [BigBird(64, globals=2), Longformer(64), Strided(isqrt(n)), Window(64)]
        cases += [{"tokens": n, "pattern": pattern.to_dict()} for pattern in named]
        cases += [
            {"tokens": n, "pattern": named[0].to_dict(), "position": position, "norm": norm}
            for position, norm in _RELATIVE
        ]
    cases += [{"tokens": n, "pattern": None, "density": max(_DENSITY, 4 / n)} for n in _MASKS]
    rows = []
    for done, case in enumerate(cases):
        progress("bench check", done, len(cases))
        command = [sys.executable, "-m", "anyseq.bench.check", json.dumps(case)]
        found = subprocess.run(command, capture_output=True, text=True, check=True)
        rows.append(json.loads(found.stdout))
    progress("bench check", len(cases), len(cases))
    return {"threads": torch.get_num_threads(), "torch": torch.__version__, "verdicts": rows}


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """One verdict, in this process.

    case: {"tokens": n, "pattern": its dictionary}, perhaps with "position" and "norm"; or
    {"tokens": n, "pattern": None, "density": the share of pairs in an arbitrary mask}.
    """
    n, norm = case["tokens"], case.get("norm", "sup")
    named = case["pattern"] is not None
    pattern = pattern_from_dict(case["pattern"]) if named else _arbitrary(n, case["density"])
    position = case.get("position", "absolute")
    design = Design(n, pattern, parse_position(position))
    answers: list[Any] = []

    def work() -> None:
        verdict = check(design, norm=norm, seconds=3600)  # as long as it takes
        path = None
        if not named:
            path = next(one.holds for one in verdict.fixed_width if one.rule == "path")
        assert verdict.reach is not None
        answers.append((verdict.universal, verdict.reach.layers, path))

    taken: list[float] = []
    extra = extra_bytes(lambda: taken.append(seconds(work)))
    universal, layers, path = answers[0]
    words = [type(pattern).__name__ if named else "arbitrary mask"]
    words += [position] * (position != "absolute") + [norm] * (norm != "sup")
    return {
        "pattern": " ".join(words),
        "tokens": n,
        "seconds": taken[0],
        "extra_bytes": extra,
        "universal": universal,
        "layers": layers,
        "path": path,
    }


def _arbitrary(n: int, density: float) -> Pattern:
    """A random mask with self-loops."""
    mask = torch.rand(n, n, generator=generator(0)) < density
    return FromMask(mask | torch.eye(n, dtype=torch.bool))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(json.loads(sys.argv[1]))))
