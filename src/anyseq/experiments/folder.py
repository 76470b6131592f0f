"""A run on the disk: one setting, one seed.

    folder/
        config.json            the cell, the seed, which data, the precision
        step-00000200/         the last checkpoint: model, optimiser (safetensors), state (JSON)
        metrics.jsonl          a line for each report of the loss
        record.json            the curve, and how the run was made, once it is over
        result.json            the metrics, once it is over
        .lock                  held while a process works here

Everything but metrics.jsonl is written whole or not at all, and metrics.jsonl is cut back to the
checkpoint before a run resumes: being killed does no harm at any moment.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from anyseq.base import read_folder, write_folder, write_text
from anyseq.errors import FileProblem
from anyseq.experiments.lock import locked

_FORMAT, _VERSION = "anyseq.run", 1

Groups = dict[str, dict[str, torch.Tensor]]


class RunFolder:
    """The files of one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def opened(self, config: Mapping[str, Any]) -> Iterator[None]:
        """Make the folder, or check that it belongs to the same configuration; it is locked for
        this process."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise FileProblem(f"{str(self.folder)!r} cannot be made: {problem}") from problem
        with locked(self.folder, wait=False):
            self._clean()
            self._check(config)
            yield

    def _clean(self) -> None:
        """Remove what killed writes left."""
        for draft in self.folder.glob(".anyseq-*"):
            shutil.rmtree(draft, ignore_errors=True)
        for draft in self.folder.glob(".*.draft"):
            draft.unlink(missing_ok=True)

    def _check(self, config: Mapping[str, Any]) -> None:
        file, wanted = self.folder / "config.json", _plain(config)
        found = self._read_json(file)
        if found is None:
            write_text(file, json.dumps(wanted, indent=2) + "\n")
        elif found != wanted:
            differs = next(
                f"{name} is {found.get(name)!r} there, {wanted.get(name)!r} here"
                for name in {**wanted, **found}
                if found.get(name) != wanted.get(name)
            )
            raise FileProblem(
                f"{str(self.folder)!r} holds another run: {differs}; choose another --out, or "
                "remove it"
            )

    def is_of(self, facts: Mapping[str, Any]) -> bool:
        """Whether the run was made with these facts, among others."""
        config = self._read_json(self.folder / "config.json") or {}
        return all(
            name in config and config[name] == value for name, value in _plain(facts).items()
        )

    def write_checkpoint(self, step: int, state: Mapping[str, Any], groups: Groups) -> None:
        """Keep this checkpoint, then delete the previous one."""
        before = self._checkpoints()
        target = self.folder / f"step-{step:08d}"
        if target in before:
            return
        write_folder(target, format=_FORMAT, version=_VERSION, facts=state, groups=groups)
        self._forget(before)

    def read_checkpoint(self) -> tuple[dict[str, Any], Groups] | None:
        """The last checkpoint, or None."""
        kept = self._checkpoints()
        return read_folder(kept[-1], format=_FORMAT, version=_VERSION) if kept else None

    def _checkpoints(self) -> list[Path]:
        return sorted(self.folder.glob("step-*"))

    def _forget(self, checkpoints: Sequence[Path]) -> None:
        for old in checkpoints:
            shutil.rmtree(old, ignore_errors=True)

    def add_metrics(self, line: Mapping[str, Any]) -> None:
        """A line of metrics.jsonl."""
        try:
            with self._metrics.open("a") as stream:
                stream.write(json.dumps(line, allow_nan=False) + "\n")
        except OSError as problem:
            raise FileProblem(f"{str(self._metrics)!r} cannot be written: {problem}") from problem

    def metrics(self) -> list[dict[str, Any]]:
        """The whole lines of metrics.jsonl."""
        try:
            text = self._metrics.read_text() if self._metrics.exists() else ""
        except (OSError, UnicodeDecodeError) as problem:
            raise FileProblem(f"{str(self._metrics)!r} cannot be read: {problem}") from problem
        whole = text.split("\n")[:-1]  # a line that was being written is not
        return [self._look(number, line) for number, line in enumerate(whole, start=1)]

    def _look(self, number: int, line: str) -> dict[str, Any]:
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        if not isinstance(found, dict) or not isinstance(found.get("step"), int):
            raise FileProblem(
                f"{str(self._metrics)!r}, line {number}: expected a JSON object with a step; "
                "remove the line"
            )
        return found

    def cut_metrics(self, step: int) -> None:
        """Delete what came after a step: it will be computed again."""
        kept = [json.dumps(line) + "\n" for line in self.metrics() if line["step"] <= step]
        write_text(self._metrics, "".join(kept))

    def write_record(
        self, sittings: Sequence[Mapping[str, Any]], end: Mapping[str, float] | None = None
    ) -> None:
        """Write how the run was made, and its curve, whose last point is `end`."""
        looks = [
            {"step": line["step"]} | line["held_out"]
            for line in self.metrics()
            if "held_out" in line
        ]
        record = {"sittings": sittings, "curve": [*looks, *([] if end is None else [end])]}
        write_text(self.folder / "record.json", json.dumps(record, indent=1, allow_nan=False))

    def record(self) -> dict[str, Any]:
        """What `write_record` has written; empty for a run that was made before there was any."""
        return self._read_json(self.folder / "record.json") or {"sittings": [], "curve": []}

    def write_result(self, metrics: Mapping[str, float]) -> None:
        """Write the metrics of the finished run."""
        self._forget(self._checkpoints()[:-1])  # of a run that was killed before it had done so
        write_text(self.folder / "result.json", json.dumps(metrics, indent=2, allow_nan=False))

    def result(self) -> dict[str, float] | None:
        """The metrics of a finished run."""
        return self._read_json(self.folder / "result.json")

    @property
    def _metrics(self) -> Path:
        return self.folder / "metrics.jsonl"

    def _read_json(self, file: Path) -> dict[str, Any] | None:
        try:
            found = json.loads(file.read_text()) if file.exists() else None
        except (OSError, ValueError) as problem:
            raise FileProblem(f"{str(file)!r} cannot be read: {problem}") from problem
        if found is not None and not isinstance(found, dict):
            raise FileProblem(f"{str(file)!r}: expected a JSON object; remove the file")
        return found


def _plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Converted through JSON, as they are read back."""
    found: dict[str, Any] = json.loads(json.dumps(facts))
    return found
