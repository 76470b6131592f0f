"""`anyseq bench training`: a step of every experiment at small, beside torch's own parts."""

from __future__ import annotations

from typing import Any

import torch

from anyseq.base import Progress, silent
from anyseq.experiments import EXPERIMENTS, Data, own_random_state, step_seconds

_ROUNDS = 31  # one step alone differs by a fifth from another, their medians by a few percent


def bench_training(progress: Progress = silent, scale: str = "small") -> dict[str, Any]:
    """Per experiment and setting the steps a second of our model and of the same one made of
    torch's own parts (settings that torch has no parts for are left out), and the share that making
    its batch has in a step of ours.

    The data is what every machine has: only its shapes matter here.
    """
    cells = [
        (experiment, cell) for experiment in EXPERIMENTS.values() for cell in experiment.grid(scale)
    ]
    rows = []
    for done, (experiment, cell) in enumerate(cells):
        progress("training steps", done, len(cells))
        with own_random_state(0, "model"):
            own, peer = experiment.model(cell), experiment.peer(cell)
        if peer is None:
            continue
        taken = step_seconds(own, peer, experiment.task(cell, Data()), cell.batch, _ROUNDS)
        rows.append(
            {
                "experiment": experiment.name,
                "setting": cell.setting,
                "own": 1 / taken["own"],
                "torch": 1 / taken["peer"],
                "against_torch": taken["peer"] / taken["own"],
                "data_share": taken["batch"] / (taken["batch"] + taken["own"]),
            }
        )
    progress("training steps", len(cells), len(cells))
    return {"threads": torch.get_num_threads(), "scale": scale, "training": rows}
