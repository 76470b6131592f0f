"""`anyseq bench fit`: method "fit" on functions of many dimensions, in seconds and in error."""

from __future__ import annotations

import time
from typing import Any

import torch

from anyseq.base import Progress, generator, silent, uniform
from anyseq.construct import FUNCTIONS, Example, approximate
from anyseq.design import Design

TASKS = (
    ("sort", 16, 1, 0.05),
    ("sort", 16, 1, 0.025),
    ("attention", 16, 4, 0.05),
    ("attention", 16, 4, 0.0125),
    ("kuramoto", 8, 1, 0.05),
    ("kuramoto", 8, 1, 0.0125),
)
"""(function, tokens, features, tolerance in mean absolute error)."""

_INPUTS = 8192


def bench_fit(
    progress: Progress = silent, tasks: tuple[tuple[str, int, int, float], ...] = TASKS
) -> dict[str, Any]:
    """Per task the seconds from call to result (cpu_seconds: of all threads together), the error
    measured on fresh inputs, and beside it that of the best constant and of the best linear map
    (least squares)."""
    rows = []
    for done, (name, tokens, features, tol) in enumerate(tasks):
        progress("fits", done, len(tasks))
        example = FUNCTIONS[name]
        start, start_cpu = time.perf_counter(), time.process_time()
        result = approximate(
            example,
            Design(tokens),
            features=features,
            tol=tol,
            norm="mean",
            method="fit",
            progress=progress,
        )
        taken, taken_cpu = time.perf_counter() - start, time.process_time() - start_cpu
        constant, linear = _simple(example, tokens, features)
        rows.append(
            {
                "function": name,
                "tokens": tokens,
                "features": features,
                "tol": tol,
                "seconds": taken,
                "cpu_seconds": taken_cpu,
                "steps": int(result.facts.checked["steps"].replace(",", "")),
                "parameters": result.size.parameters,
                "error": result.error.terms[0].value,
                "lower": result.error.lower,
                "constant": constant,
                "linear": linear,
            }
        )
    progress("fits", len(tasks), len(tasks))
    return {"threads": torch.get_num_threads(), "fits": rows}


def _simple(example: Example, tokens: int, features: int) -> tuple[float, float]:
    """The mean absolute errors of the mean of f and of an affine map, on inputs not used for
    fitting."""
    x = uniform(2 * _INPUTS, tokens, features, rng=generator(1))
    y = example(x).flatten(1)
    known, fresh = slice(_INPUTS), slice(_INPUTS, None)
    affine = torch.cat([x.flatten(1), torch.ones(len(x), 1, dtype=x.dtype)], dim=1)
    weights = torch.linalg.lstsq(affine[known], y[known]).solution
    return (
        float((y[fresh] - y[known].mean(0)).abs().mean()),
        float((y[fresh] - affine[fresh] @ weights).abs().mean()),
    )
