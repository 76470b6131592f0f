"""`anyseq bench training`: a step of every experiment at small, beside torch's own parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import nn

from anyseq.base import Progress, generator, medians, silent
from anyseq.experiments import (
    EXPERIMENTS,
    AnyExperiment,
    Cell,
    Data,
    own_random_state,
    training_step,
)

_ROUNDS = 13  # one step alone differs by a fifth from another, their medians by a few percent
_COPIES = 6  # and so do two models alike, which lie elsewhere in memory


def bench_training(progress: Progress = silent, scale: str = "small") -> dict[str, Any]:
    """Per experiment and setting the steps a second of our model and of the same one made of
    torch's own layers (settings that torch has no parts for are left out), and the share that
    making its batch has in a step of ours.

    torch's layers have no gain: beside URPE they do without it, and "against_formula" sets ours
    beside the same model with the gain by torch's operators.

    The data is what every machine has: only its shapes matter here.
    """
    cells = [
        (experiment, cell) for experiment in EXPERIMENTS.values() for cell in experiment.grid(scale)
    ]
    rows = []
    for done, (experiment, cell) in enumerate(cells):
        progress("training steps", done, len(cells))
        taken = _medians(experiment, cell)
        if taken is None:
            continue
        rows.append(
            {
                "experiment": experiment.name,
                "setting": cell.setting,
                "own": 1 / taken["own"],
                "torch": 1 / taken["torch"],
                "against_torch": taken["torch"] / taken["own"],
                "against_formula": taken["formula"] / taken["own"] if "formula" in taken else None,
                "data_share": taken["batch"] / (taken["batch"] + taken["own"]),
            }
        )
    progress("training steps", len(cells), len(cells))
    return {"threads": torch.get_num_threads(), "scale": scale, "training": rows}


def _medians(experiment: AnyExperiment, cell: Cell) -> dict[str, float] | None:
    """Seconds by name: "own", "torch" and, with a gain, "formula": the median of several models
    alike, in alternating rounds; "batch", what it takes to make one. None if torch has no parts for
    it."""
    task = experiment.task(cell, Data())
    kinds: dict[str, Callable[[], nn.Module | None]] = {
        "own": partial(experiment.model, cell),
        "torch": partial(experiment.peer, cell),
    }
    if getattr(cell, "position", None) == "urpe":
        without_gain = replace(cell, position="rpe")  # type: ignore[call-arg]
        kinds |= {"formula": kinds["torch"], "torch": partial(experiment.peer, without_gain)}
    steps: dict[str, Callable[[], object]] = {}
    for copy in range(_COPIES):
        for kind in sorted(kinds, reverse=bool(copy % 2)):  # made first, lies elsewhere in memory
            with own_random_state(copy, "model"):
                model = kinds[kind]()
            if model is None:
                return None
            steps[f"{kind} {copy}"] = training_step(model, task, cell.batch)
    steps["batch"] = lambda: task.batch(cell.batch, generator(1))
    taken = medians(steps, _ROUNDS)
    return {
        kind: median(value for name, value in taken.items() if name.split()[0] == kind)
        for kind in (*kinds, "batch")
    }
