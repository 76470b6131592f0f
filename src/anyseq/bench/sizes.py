"""Each method against its size: time to build, evaluations a second, memory.

A method is measured in a separate process, on the design with which it comes nearest to a million
cells, with the fewest parameters.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from anyseq.base import extra_bytes, generator, medians, seconds, uniform
from anyseq.construct import FUNCTIONS, Approximation, approximate
from anyseq.construct.methods import METHODS
from anyseq.construct.methods.recipe import Recipe
from anyseq.construct.verbs.plan import plan
from anyseq.design import Design
from anyseq.errors import CannotApproximate
from anyseq.positions import Absolute, NoPosition

SIZES = (1_000, 30_000, 1_000_000)

_BATCH = 512
_ROUNDS = 200
_FUNCTION = FUNCTIONS["attention"]  # equivariant, so that designs without positions do, too
_BUDGET = 2_000_000_000  # parameters; a look-up needs none of them
_MODULE = 600_000_000  # of a module that is made: 4.8 GB, and as much again while it is
_FINEST = 2.0**-30


def by_size(wanted: tuple[int, ...]) -> dict[str, list[dict[str, Any]]]:
    """By method, one row per size; none for a method that holds no values of f."""
    return {method: _apart(method, wanted) for method in METHODS}


def _apart(method: str, wanted: tuple[int, ...]) -> list[dict[str, Any]]:
    case = json.dumps({"method": method, "sizes": wanted, "threads": torch.get_num_threads()})
    command = [sys.executable, "-m", "anyseq.bench.sizes", case]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def measure(method: str, wanted: tuple[int, ...]) -> list[dict[str, Any]]:
    """The rows of one method, in this process, whose memory may include leftovers."""
    rows: list[dict[str, Any]] = []
    results: list[Approximation] = []
    for recipe in _cases(method, wanted):
        taken, extra = _cost(partial(_build, recipe, results))
        result = results[-1]
        rows.append(
            {
                "tokens": result.design.tokens,
                "norm": recipe.ask.norm,
                "cells": result.facts.cells,
                "layers": result.size.layers,
                "parameters": result.size.parameters,
                "build_seconds": taken,
                "build_bytes": extra,
            }
        )
    if not results:
        return []
    x = uniform(_BATCH, results[0].design.tokens, 1, rng=generator(0))
    with torch.no_grad():
        times = medians({str(at): partial(one, x) for at, one in enumerate(results)}, _ROUNDS)
    for row, taken, result in zip(rows, times.values(), results, strict=True):
        row["evaluations_per_second"] = _BATCH / taken
        row["model_seconds"] = row["model_bytes"] = None
        if result.size.parameters <= _MODULE:
            row["model_seconds"], row["model_bytes"] = _cost(partial(getattr, result, "model"))
            result._model = None  # the next one is to find the memory free
    return rows


def _cost(work: Callable[[], object]) -> tuple[float, int]:
    """(seconds, extra bytes) of one call."""
    taken: list[float] = []
    extra = extra_bytes(lambda: taken.append(seconds(work)))
    return taken[0], extra


def _build(recipe: Recipe, into: list[Approximation]) -> None:
    ask = recipe.ask
    into.append(
        approximate(
            _FUNCTION,
            ask.design,
            features=1,
            tol=ask.tol,
            norm=ask.norm,
            method=recipe.method,
            lipschitz=ask.lipschitz,
            budget=_BUDGET,
        )
    )


def _cases(method: str, wanted: tuple[int, ...]) -> list[Recipe]:
    """For the design that goes furthest, a recipe of each size, or the largest there is."""
    every = [
        series
        for position in (Absolute(), NoPosition())
        for tokens in range(2, 7)
        for norm in ("sup", "lp")
        if (series := _series(method, Design(tokens, position=position), norm, wanted[-1]))
    ]
    if not every:
        return []
    most = wanted[-1]
    best = max(
        every,
        key=lambda series: (min(series[-1].cells, most), -series[-1].shape.parameters),
    )
    picked = [next((one for one in best if one.cells >= size), best[-1]) for size in wanted]
    return list({one.cells: one for one in picked}.values())


def _series(method: str, design: Design, norm: str, most: int) -> list[Recipe]:
    """Finer and finer grids, until one has `most` cells or the method refuses."""
    found: list[Recipe] = []
    lipschitz, tol = _FUNCTION.lipschitz(design.tokens, 1), 4.0
    while tol > _FINEST and not (found and found[-1].cells >= most):
        try:
            recipe = _recipe(method, design, norm, tol, lipschitz)
        except CannotApproximate:
            break
        if recipe.cells and not (found and recipe.cells <= found[-1].cells):
            found.append(recipe)
        tol /= 2
    return found


def _recipe(method: str, design: Design, norm: str, tol: float, lipschitz: float) -> Recipe:
    made = plan(design, 1, tol, lipschitz=lipschitz, norm=norm, budget=_BUDGET)
    for recipe in made.recipes:
        if recipe.method == method:
            return recipe
    raise CannotApproximate(made.refused[method])


if __name__ == "__main__":
    case = json.loads(sys.argv[1])
    torch.set_num_threads(case["threads"])
    sys.stdout.write(json.dumps(measure(case["method"], tuple(case["sizes"]))))
