"""Paper C, what URPE costs: time and memory beside RPE's, of a training step and of reading only.

Times are medians of alternating rounds; memory is what a training step needs on top of the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

import torch
from torch import nn

from anyseq.base import generator, medians
from anyseq.experiments.data import Data
from anyseq.experiments.engine import accelerator, is_main_process, own_random_state
from anyseq.experiments.experiment import TINY, Experiment, Judgement, Metric
from anyseq.experiments.peer import step_seconds
from anyseq.experiments.position_tasks import PositionCell, Synthetic, position_model, torch_peer
from anyseq.experiments.step_memory import step_bytes
from anyseq.experiments.table import Table

_PAPERS = (128, 256, 512)
_LENGTHS = {"tiny": (16,), "small": (128, 512), "medium": _PAPERS, "paper": _PAPERS}
_POSITIONS = ("rpe", "urpe", "absolute")
# steps: how many rounds are timed
_SIZES = {
    "tiny": PositionCell("", 1, 2, 1e-3, dim=16, heads=2, depth=1),
    "small": PositionCell("", 7, 4, 1e-3, dim=128, heads=4, depth=3),
    "medium": PositionCell("", 3, 1, 1e-3, dim=768, heads=12, depth=12),  # the paper's model
    "paper": PositionCell("", 31, 32, 1e-3, dim=768, heads=12, depth=12),
}
_VOCABULARY = 1000
_SMALL_COST = 1.1  # "small", says the paper, of 1.8 % more time and 9.7 % more memory


class Overhead(Experiment[PositionCell]):
    """Each kind of position, against RPE and against torch's own layers. At medium the model has
    the paper's 12 layers, 768 features, 12 heads, and batches of one sequence (there 32)."""

    name, paper, metric = "overhead", "C", Metric("time_against_rpe", higher_is_better=False)
    claim = "URPE costs little more than RPE: 1.8 % of time and 9.7 % of memory at 512 tokens."
    note = "The paper's: 4.55, 5.60, 6.79 with RPE and 4.59, 5.66, 6.91 with URPE."
    published: ClassVar[Mapping[str, float]] = {
        "urpe, 512 tokens": 1.018,  # of which the claim is
        "urpe, 256 tokens": 1.011,
        "urpe, 128 tokens": 1.009,
    }

    def grid(self, scale: str) -> Sequence[PositionCell]:
        return [
            replace(
                _SIZES[scale],
                setting=f"{position}, {tokens} tokens",
                position=position,
                tokens=tokens,
                vocab=max(_VOCABULARY, tokens),  # the targets are positions
            )
            for tokens in _LENGTHS[scale]
            for position in _POSITIONS
        ]

    def task(self, cell: PositionCell, data: Data) -> Synthetic:
        return Synthetic(cell.vocab, cell.tokens)

    def model(self, cell: PositionCell) -> nn.Module:
        return position_model(cell, cell.vocab)

    def measure(self, cell: PositionCell, seed: int) -> Mapping[str, float]:
        if not is_main_process():
            return {}  # the others would only be in its way
        task, device = self.task(cell, Data()), accelerator().device
        with own_random_state(seed, "model"):
            models = {
                "own": self.model(cell),
                "rpe": self.model(replace(cell, position="rpe")),
                "torch": torch_peer(cell, cell.vocab),
            }
        models = {name: model.to(device) for name, model in models.items()}
        times = step_seconds(models, task, cell.batch, cell.steps)
        reading = _reading_seconds(models, task, cell.batch, cell.steps)
        memory, rpe_memory = step_bytes(cell), step_bytes(replace(cell, position="rpe"))
        found = {
            "time_against_rpe": times["own"] / times["rpe"],
            "time_against_torch": times["own"] / times["torch"],
            "reading_against_rpe": reading["own"] / reading["rpe"],
            "steps_per_second": 1 / times["own"],
        }
        if memory is None or rpe_memory is None:
            return found
        return found | {"memory_against_rpe": memory / rpe_memory, "megabytes": memory / 1e6}

    def judge(self, table: Table) -> Judgement:
        if table.scale == "tiny":
            return TINY
        setting = next(iter(self.published))
        time, memory = (
            table.summary(setting, metric) for metric in (self.metric.name, "memory_against_rpe")
        )
        if time is None:
            return Judgement("undecided", f"not run yet: {setting}")
        if memory is None:
            return Judgement("undecided", f"no memory was measured at {setting}")
        costs = f"{time.mean:.3f} times RPE's time and {memory.mean:.3f} times its memory"
        little = max(time.mean, memory.mean) <= _SMALL_COST
        return Judgement("same" if little else "different", f"{costs} at {setting}")


def _reading_seconds(
    models: Mapping[str, nn.Module], task: Synthetic, size: int, rounds: int
) -> dict[str, float]:
    """Medians of alternating rounds: one batch, without gradients."""
    device = next(models["own"].parameters()).device
    ids = task.batch(size, generator(0))["input"].to(device)

    @torch.no_grad()
    def read(model: nn.Module) -> None:
        model(ids)
        if device.type != "cpu":
            torch.accelerator.synchronize()  # or only the asking would be timed

    return medians({name: partial(read, model) for name, model in models.items()}, rounds)
