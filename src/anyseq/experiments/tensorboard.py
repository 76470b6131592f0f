"""Losses for TensorBoard, if requested."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anyseq.errors import MissingExtra
from anyseq.experiments.train import Sight, Watch


@contextmanager
def tensorboard(folder: Path, experiment: str, scale: str) -> Iterator[Watch]:
    """A watch that writes a curve for each run of an experiment, below a folder."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as problem:
        raise MissingExtra("--tensorboard: pip install tensorboard") from problem
    writers: dict[Path, SummaryWriter] = {}
    runs = folder / "tensorboard" / experiment / scale

    def note(sight: Sight) -> None:
        run = runs / sight.setting / f"seed-{sight.seed}"
        if run not in writers:
            # what was written of these steps before the run was stopped is not shown
            writers[run] = SummaryWriter(run, purge_step=sight.step)
        writers[run].add_scalar("loss", sight.loss, sight.step)

    try:
        yield note
    finally:
        for writer in writers.values():
            writer.close()
