"""One run: a cell and a seed, from its last checkpoint to its metrics.

What happens at a step follows from the seed, the step and the weights alone, so on one process a
run that was stopped or killed resumes bit-identically.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from anyseq.base import generator, seed_of
from anyseq.errors import FileProblem, TrainingDiverged
from anyseq.experiments.data import Data
from anyseq.experiments.engine import Engine, accelerator, own_random_state
from anyseq.experiments.experiment import AnyExperiment, Cell
from anyseq.experiments.folder import RunFolder
from anyseq.experiments.peer import step_seconds
from anyseq.experiments.record import Sitting
from anyseq.experiments.state import started_from

_LOOKS = 100  # lines of metrics.jsonl, if a run has as many steps
_SECONDS_BETWEEN_CHECKPOINTS = 30.0
_ROUNDS = 5  # of steps beside the peer


class Sight(NamedTuple):
    """The callbacks of a run in progress."""

    setting: str
    seed: int
    step: int
    steps: int
    loss: float
    steps_per_second: float


Watch = Callable[[Sight], None]


@dataclass
class _Progress:
    """What a checkpoint holds besides tensors: steps made, seconds in them and in batches, and who
    made them."""

    step: int = 0
    seconds: float = 0.0
    data_seconds: float = 0.0
    sittings: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Run:
    """start: the folder of the finished run whose weights this one begins with."""

    experiment: AnyExperiment
    cell: Cell
    seed: int
    data: Data
    folder: RunFolder
    start: RunFolder | None = None

    def train(self, watch: Watch, stop: Callable[[], bool]) -> dict[str, float]:
        """Train to the end and measure. When `stop` is set: keep a checkpoint, and interrupt."""
        with own_random_state(self.seed, "model"):
            engine = self._engine()
            progress = self._resume(engine)
            self._steps(engine, progress, watch, stop)
            metrics = self._measured(engine, self.cell.steps)
        if engine.is_main:
            self.folder.write_record(progress.sittings, metrics | {"step": self.cell.steps})
        return metrics | {
            "steps_per_second": self.cell.steps / progress.seconds,
            "data_share": progress.data_seconds / progress.seconds,
        }

    def speed(self) -> dict[str, float]:
        """Speed beside torch's own parts, once for each cell; only on one process, since waiting
        for others would be timed too."""
        processes = accelerator()
        if self.seed > 0 or processes.num_processes > 1:
            return {}
        with own_random_state(self.seed, "model"):
            own, peer = self.experiment.model(self.cell), self.experiment.peer(self.cell)
        if peer is None:
            return {}
        models = {"own": own.to(processes.device), "peer": peer.to(processes.device)}
        task = self.experiment.task(self.cell, self.data)
        taken = step_seconds(models, task, self.cell.batch, _ROUNDS)
        return {"speed_against_torch": taken["peer"] / taken["own"]}

    def _engine(self) -> Engine:
        task = self.experiment.task(self.cell, self.data)
        model = self.experiment.model(self.cell)
        if self.start is not None:
            kept = self.start.read_checkpoint()
            if kept is None:
                raise FileProblem(f"{str(self.start.folder)!r} holds no trained weights")
            started_from(model, kept[1]["model"])
        return Engine(model, task, self.cell, self.seed)

    def _resume(self, engine: Engine) -> _Progress:
        kept = self.folder.read_checkpoint()
        progress = _Progress() if kept is None else _Progress(**kept[0])
        if kept is not None:
            engine.restore(kept[1])
        if engine.is_main:
            self.folder.cut_metrics(progress.step)
        return progress

    def _steps(
        self, engine: Engine, progress: _Progress, watch: Watch, stop: Callable[[], bool]
    ) -> None:
        cell, written = self.cell, time.monotonic()
        every, measured = max(1, cell.steps // _LOOKS), max(1, cell.steps // cell.points)
        sitting = Sitting.now(str(engine.accelerator.mixed_precision))
        counted, earlier = progress.seconds, progress.sittings
        while progress.step < cell.steps:
            began = time.perf_counter()
            batch = engine.task.batch(
                cell.batch, generator(seed_of(self.seed, "batch", progress.step))
            )
            made = time.perf_counter()
            due = engine.is_main and time.monotonic() - written >= _SECONDS_BETWEEN_CHECKPOINTS
            loss, (stopping, keeping) = engine.step(progress.step, batch, (stop(), due))
            if not math.isfinite(loss):
                raise TrainingDiverged(
                    f"{self._name}: the loss or its gradient is not a number at step "
                    f"{progress.step + 1}; the last checkpoint is kept"
                )
            progress.step += 1
            progress.data_seconds += made - began
            progress.seconds += time.perf_counter() - began
            over = progress.step == cell.steps
            line: dict[str, Any] = {}
            if progress.step % every == 0 or over:
                line = {"loss": loss}
            if progress.step % measured == 0 and not over:
                line |= {"held_out": self._measured(engine, progress.step)}
            if engine.is_main:
                if line:
                    self.folder.add_metrics({"step": progress.step} | line)
                rate = progress.step / progress.seconds
                watch(Sight(cell.setting, self.seed, progress.step, cell.steps, loss, rate))
            if keeping or stopping or over:
                sitting.goes_on(progress.seconds - counted)
                counted, progress.sittings = progress.seconds, [*earlier, asdict(sitting)]
                self._keep(engine, progress)
                written = time.monotonic()
            if stopping and not over:
                raise KeyboardInterrupt(
                    f"stopped at step {progress.step:,} of {self._name}; the same command resumes "
                    "from there"
                )

    def _keep(self, engine: Engine, progress: _Progress) -> None:
        state = engine.state()  # all processes hand in what they hold, one writes
        if engine.is_main:
            self.folder.write_checkpoint(progress.step, vars(progress), state)
        engine.accelerator.wait_for_everyone()

    def _measured(self, engine: Engine, step: int) -> dict[str, float]:
        """On the held-out batches."""
        metrics = engine.evaluate()
        for name, value in metrics.items():
            if not math.isfinite(value):
                raise TrainingDiverged(f"{self._name}: {name} is {value} after {step:,} steps")
        return metrics

    @property
    def _name(self) -> str:
        return f"{self.experiment.name}, {self.cell.setting}, seed {self.seed}"
