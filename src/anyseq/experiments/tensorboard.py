"""Losses for TensorBoard, if it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anyseq.errors import MissingExtra
from anyseq.experiments.train import Sight, Watch


@contextmanager
def tensorboard(folder: Path) -> Iterator[Watch]:
    """A watch that writes a curve for each run below a folder."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as problem:
        raise MissingExtra("--tensorboard: pip install tensorboard") from problem
    writers: dict[str, SummaryWriter] = {}

    def note(sight: Sight) -> None:
        run = f"{sight.setting}, seed {sight.seed}"
        if run not in writers:
            writers[run] = SummaryWriter(folder / "tensorboard" / run)
        writers[run].add_scalar("loss", sight.loss, sight.step)

    try:
        yield note
    finally:
        for writer in writers.values():
            writer.close()
