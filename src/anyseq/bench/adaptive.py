"""`anyseq bench adaptive`: nodes where the error is large, against as many everywhere."""

from __future__ import annotations

from typing import Any

from anyseq.base import Progress, silent
from anyseq.construct import FUNCTIONS, Example, plan
from anyseq.construct.methods.gather.gather import NAME
from anyseq.design import Design

_TOLS = (0.1, 0.01)
_BUDGET = 10**15
_ROUNDING = 1 + 1e-6  # else a grid with the same cells may fail by the rounding of float64 alone


def bench_adaptive(progress: Progress = silent) -> dict[str, Any]:
    """For built-in functions with a local feature: what "gather" plans from constants given per
    box, and from one number for the whole cube, at the error proved with the former."""
    examples = [example for example in FUNCTIONS.values() if example.local_curvature is not None]
    cases = [
        (example, tokens, norm, tol)
        for example in examples
        for tokens in (1, 2, 3)
        for norm in ("sup", "lp")
        for tol in _TOLS
    ]
    rows = []
    for done, case in enumerate(cases):
        progress("plans", done, len(cases))
        rows.append(_row(*case))
    progress("plans", len(cases), len(cases))
    return {"rows": rows}


def _row(example: Example, tokens: int, norm: str, tol: float) -> dict[str, Any]:
    assert example.curvature is not None
    told = _gather(
        tokens, norm, tol, lipschitz=example.local_lipschitz, curvature=example.local_curvature
    )
    even = _gather(
        tokens, norm, told["error"] * _ROUNDING,
        lipschitz=example.lipschitz(tokens, 1), curvature=example.curvature(tokens, 1),
    )  # fmt: skip
    return {
        "function": example.name,
        "tokens": tokens,
        "norm": norm,
        "error": told["error"],
        "nodes": told["cells"],
        "parameters": told["parameters"],
        "even_nodes": even["cells"],
        "even_parameters": even["parameters"],
    }


def _gather(tokens: int, norm: str, tol: float, **constants: Any) -> dict[str, Any]:
    made = plan(Design(tokens), 1, tol, norm=norm, budget=_BUDGET, **constants)
    return next(row for row in made.rows() if row["method"] == NAME)
