"""`anyseq bench construct`: building, saving, loading and evaluating constructed networks."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch

from anyseq.base import Progress, generator, medians, seconds, silent, uniform
from anyseq.bench.sizes import SIZES, by_size
from anyseq.construct import FUNCTIONS, Approximation, approximate, load
from anyseq.design import Design

_BATCH = 512


def bench_construct(progress: Progress = silent, sizes: tuple[int, ...] = SIZES) -> dict[str, Any]:
    """The figures that docs/measured.md quotes, measured on this machine.

    sizes: so many cells, or more, of each method, increasing.
    """
    progress("fused against layer by layer", 0, 3)
    fused = _fused_against_layers()
    progress("every method against its size", 1, 3)
    grown = by_size(sizes)
    progress("build, save and load over 262,000 layers", 2, 3)
    deep = _deep()
    progress("build, save and load over 262,000 layers", 3, 3)
    return {"yun_fused": fused, "sizes": grown, "yun_deep": deep}


def _yun(tokens: int, step: float) -> Approximation:
    """Method "yun" with this grid step: the tolerance is what the step just meets."""
    wanted = step / 2 * tokens**0.5 * 1.05
    result = approximate(
        FUNCTIONS["running-max"],
        Design(tokens),
        features=1,
        tol=wanted,
        norm="lp",
        method="yun",
        lipschitz=1.0,
    )
    assert result.facts.step == step, result.facts.step
    return result


def _fused_against_layers() -> dict[str, Any]:
    """n = 4, d = 1, δ = 1/8, batch 512."""
    result = _yun(4, 1 / 8)
    x = uniform(_BATCH, 4, 1, rng=generator(0))
    with torch.no_grad():
        apart = float((result(x) - result.model(x)).abs().max())
        times = medians({"fused": lambda: result(x), "layers": lambda: result.model(x)}, rounds=3)
    return {
        "layers": result.size.layers,
        "layer_by_layer_seconds": times["layers"],
        "fused_seconds": times["fused"],
        "ratio": times["layers"] / times["fused"],
        "largest_difference": apart,
    }


def _deep() -> dict[str, Any]:
    """n = 4, d = 1, δ = 1/16: over 262,000 layers."""
    held: list[Approximation] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "deep"
        build = seconds(lambda: held.append(_yun(4, 1 / 16)))
        save = seconds(lambda: held[0].save(folder))
        read = seconds(lambda: held.append(load(folder)))
        size = sum(file.stat().st_size for file in folder.iterdir())
    return {
        "layers": held[0].size.layers,
        "parameters": held[0].size.parameters,
        "build_seconds": build,
        "save_seconds": save,
        "load_seconds": read,
        "megabytes": size / 1e6,
    }
