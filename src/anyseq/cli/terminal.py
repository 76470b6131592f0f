"""Where commands print: results to standard output, progress to standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anyseq.base import Progress as Report


def say(text: str) -> None:
    """A line or more for people."""
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """A line beside the result, for people."""
    sys.stderr.write(f"anyseq: {text}\n")


def say_json(value: Any) -> None:
    """One JSON document for machines."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


@contextmanager
def progress_bar() -> Iterator[Report]:
    """A progress report shown as a bar, if somebody is watching; it disappears at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,}/{task.total:,}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    tasks: dict[str, Any] = {}

    def report(stage: str, done: int, total: int) -> None:
        if stage not in tasks:
            tasks[stage] = bar.add_task(stage, total=total)
        bar.update(tasks[stage], completed=done, total=total)

    with bar:
        yield report
