"""All runs of an experiment, and the rows of results.

    out/results.json                                   all rows, rewritten after each run
    out/records.json                                   all curves, and how the runs were made
    out/<experiment>/<scale>/<setting>/seed-<seed>/    a run

Both files are made from the runs, so nothing in them can be lost or doubled.
"""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from fnmatch import fnmatchcase
from itertools import count, product
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from anyseq.base import at_least_one, one_of
from anyseq.errors import InvalidArgument
from anyseq.experiments.catalogue import EXPERIMENTS
from anyseq.experiments.data import Data
from anyseq.experiments.engine import accelerator, is_main_process
from anyseq.experiments.experiment import SCALES, AnyExperiment
from anyseq.experiments.folder import RunFolder
from anyseq.experiments.kept import write_kept
from anyseq.experiments.lock import locked
from anyseq.experiments.record import Record, Sitting
from anyseq.experiments.table import Row, Table
from anyseq.experiments.train import Run, Sight, Watch


def unwatched(sight: Sight) -> None:
    """No reporting."""


def reproduce(
    name: str,
    *,
    scale: str = "small",
    seeds: int = 3,
    out: Path,
    data: Path | None = None,
    only: str = "*",
    watch: Watch = unwatched,
) -> Table:
    """Run every setting of an experiment with seeds 0, ..., seeds - 1; finished runs are not
    repeated.

    only: the settings whose names match, with * for anything.
    data: a folder with the experiment's files; without it a built-in corpus is used.
    watch: called at every step.
    """
    experiment = EXPERIMENTS[one_of("NAME", name, EXPERIMENTS)]
    one_of("--scale", scale, SCALES)
    at_least_one("--seeds", seeds)
    cells = [cell for cell in experiment.grid(scale) if fnmatchcase(cell.setting, only)]
    if not cells:
        names = "; ".join(cell.setting for cell in experiment.grid(scale))
        raise InvalidArgument(f"--only {only}: {name} has no such setting at {scale}, but {names}")
    given, processes = Data(data), accelerator()
    with _interruptible() as stop:
        for seed, cell in product(range(seeds), cells):
            folder = _folder(out, experiment, scale, cell.setting, seed)
            start = cell.start and _folder(out, experiment, scale, cell.start, seed)
            run = Run(experiment, cell, seed, given, folder, start or None)
            with ExitStack() as held:
                if processes.is_main_process:
                    facts: dict[str, Any] = {"experiment": name, "scale": scale, "seed": seed}
                    facts["data"] = dict(experiment.sources(cell, given))
                    facts["mixed_precision"] = processes.mixed_precision
                    held.enter_context(folder.opened(facts | asdict(cell)))
                processes.wait_for_everyone()
                if folder.result() is None:
                    _finish(run, out, watch, stop)
                processes.wait_for_everyone()
            if stop():
                raise KeyboardInterrupt(f"stopped after {cell.setting}; the same command resumes")
    if processes.is_main_process:
        write_results(out)  # the last run's may have been killed while it was writing this
    return next(table for table in tables(out) if (table.experiment, table.scale) == (name, scale))


def _finish(run: Run, out: Path, watch: Watch, stop: Callable[[], bool]) -> None:
    """Measure or train, and keep the result."""
    sitting, began = Sitting.now(accelerator().mixed_precision), time.perf_counter()
    found = run.experiment.measure(run.cell, run.seed)
    if found is not None and is_main_process():
        sitting.goes_on(time.perf_counter() - began)
        run.folder.write_record([asdict(sitting)])
    if found is None:
        found = run.train(watch, stop)
        _keep(run.folder, found, out)  # whatever becomes of what follows
        found = found | run.speed()
    _keep(run.folder, found, out)


def _keep(folder: RunFolder, found: Mapping[str, float], out: Path) -> None:
    if is_main_process():
        folder.write_result(found)
        write_results(out)


def tables(out: Path) -> list[Table]:
    """The results of the finished runs under a folder, one experiment and scale at a time; runs
    with another configuration than today's are only named."""
    found = []
    for experiment, scale, runs in _grids(out):
        todays = [run for run in runs if run.is_todays]
        left_out = [run.name for run in runs if not run.is_todays]
        found.append(_table(experiment, scale, todays, left_out))
    return found


def _table(
    experiment: AnyExperiment, scale: str, runs: Sequence[_Finished], left_out: Sequence[str] = ()
) -> Table:
    rows = [row for run in runs for row in run.rows]
    return Table(experiment.name, scale, rows, left_out, [run.record for run in runs])


def write_results(out: Path) -> None:
    """The two files of a folder: all runs, whatever their configuration."""
    with locked(out, wait=True):  # or a run that ended meanwhile might be missing
        for draft in out.glob(".re*.json.*.draft"):  # of a write that was killed
            draft.unlink(missing_ok=True)
        write_kept(out, [_table(*each) for each in _grids(out)])


class _Finished(NamedTuple):
    name: str
    is_todays: bool
    rows: list[Row]
    record: Record


def _grids(out: Path) -> Iterator[tuple[AnyExperiment, str, list[_Finished]]]:
    """Experiments and scales that have a finished run."""
    for experiment, scale in product(EXPERIMENTS.values(), SCALES):
        if runs := list(_finished(out, experiment, scale)):
            yield experiment, scale, runs


def _finished(out: Path, experiment: AnyExperiment, scale: str) -> Iterator[_Finished]:
    if not (out / experiment.name / scale).is_dir():
        return
    for cell in experiment.grid(scale):
        for seed in count():
            run = _folder(out, experiment, scale, cell.setting, seed)
            if not run.folder.is_dir():
                break
            result = run.result()
            if result is None:
                continue
            place: Row = {"experiment": experiment.name, "scale": scale}
            place |= {"setting": cell.setting, "seed": seed}
            yield _Finished(
                f"{cell.setting}, seed {seed}",
                run.is_of(asdict(cell)),
                [place | {"metric": metric, "value": value} for metric, value in result.items()],
                Record(cell.setting, seed, **run.record()),
            )


def _folder(out: Path, experiment: AnyExperiment, scale: str, setting: str, seed: int) -> RunFolder:
    plain = re.sub(r"[^a-z0-9.]+", "-", setting.lower()).strip("-")
    return RunFolder(out / experiment.name / scale / plain / f"seed-{seed}")


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Ctrl-C, or SIGTERM, stops after the current step; a second Ctrl-C stops at once."""
    asked: list[int] = []

    def ask(number: int, frame: FrameType | None) -> Any:
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt("stopped at once; the last checkpoint is kept")
        asked.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, ask) for number in numbers]
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
