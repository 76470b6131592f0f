"""`anyseq bench training`: a step of every experiment at small, beside torch's own parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from statistics import mean, median, stdev
from typing import Any

import torch
from torch import nn

from anyseq.base import Progress, silent
from anyseq.experiments import (
    EXPERIMENTS,
    AnyExperiment,
    Cell,
    Data,
    own_random_state,
    step_seconds,
)

# A machine is quicker in some minutes than in others, and the ratio of two models is then another,
# too; two models alike differ by a few percent, since they lie elsewhere in memory. So all settings
# are gone through several times, with new models, and what a pass finds counts as one number.
_PASSES = 6
_ROUNDS = 4
_SURE = 0.95


def bench_training(progress: Progress = silent, scale: str = "small") -> dict[str, Any]:
    """Per experiment and setting the steps a second of anyseq's model and of the same one made of
    torch's own layers (settings that torch has no parts for are left out), and the share of a step
    spent on making its batch.

    "against_torch": {"ratio", "low", "high"}, how many times as many steps anyseq makes, with the
    ends of Student's 95 % interval over the passes. torch's layers have no gain: beside URPE they
    do without it, and "against_formula" compares with the same model with the gain by torch's
    operators, None elsewhere.

    The data is what every machine has: only its shapes matter here.
    """
    cells = [
        (experiment, cell) for experiment in EXPERIMENTS.values() for cell in experiment.grid(scale)
    ]
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    whole = _PASSES * len(cells)
    for done in range(whole):
        experiment, cell = cells[done % len(cells)]
        progress("training steps", done, whole)
        taken = _seconds(experiment, cell, turn=done // len(cells))
        if taken is not None:
            found.setdefault((experiment.name, cell.setting), []).append(taken)
    progress("training steps", whole, whole)
    rows = [
        {"experiment": name, "setting": setting, **_row(passes)}
        for (name, setting), passes in found.items()
    ]
    return {"threads": torch.get_num_threads(), "scale": scale, "training": rows}


def _row(passes: Sequence[dict[str, float]]) -> dict[str, Any]:
    """The passes combined."""
    own, other, batch = (
        median(taken[kind] for taken in passes) for kind in ("own", "torch", "batch")
    )
    return {
        "own": 1 / own,
        "torch": 1 / other,
        "against_torch": _ratio(passes, "torch"),
        "against_formula": _ratio(passes, "formula") if "formula" in passes[0] else None,
        "data_share": batch / (batch + own),
    }


def _ratio(passes: Sequence[dict[str, float]], other: str) -> dict[str, float]:
    """The geometric mean of the passes' ratios, with Student's interval of their logarithms."""
    from scipy.stats import t  # slow to import

    logs = [math.log(taken[other] / taken["own"]) for taken in passes]
    middle = mean(logs)
    wide = t.ppf((1 + _SURE) / 2, len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    return {
        name: math.exp(value)
        for name, value in (("ratio", middle), ("low", middle - wide), ("high", middle + wide))
    }


def _seconds(experiment: AnyExperiment, cell: Cell, turn: int) -> dict[str, float] | None:
    """What `step_seconds` finds for "own", "torch" and, with a gain, "formula"; None if torch has
    no parts for it.

    turn: of the passes. Each time another model is made first, and so lies elsewhere in memory, and
    rounds have other orders."""
    task = experiment.task(cell, Data())
    kinds: dict[str, Callable[[], nn.Module | None]] = {
        "own": partial(experiment.model, cell),
        "torch": partial(experiment.peer, cell),
    }
    if getattr(cell, "position", None) == "urpe":
        without_gain = replace(cell, position="rpe")  # type: ignore[call-arg]
        kinds |= {"formula": kinds["torch"], "torch": partial(experiment.peer, without_gain)}
    models: dict[str, nn.Module] = {}
    names = list(kinds)
    for kind in names[turn % len(names) :] + names[: turn % len(names)]:
        with own_random_state(0, "model"):
            model = kinds[kind]()
        if model is None:
            return None
        models[kind] = model
    return step_seconds(models, task, cell.batch, _ROUNDS, seed=turn)
