"""`anyseq reproduce`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from anyseq.cli.terminal import say, say_json
from anyseq.errors import FileProblem, InvalidArgument

if TYPE_CHECKING:
    from anyseq.experiments import Sight, Table, Watch

# What is slow to import is imported where it is used, so that --help is not.


def reproduce(
    name: str | None = None,
    /,
    *,
    scale: str = "small",
    seeds: int = 3,
    out: Path = Path("anyseq-reproduce"),
    data: Path | None = None,
    only: str = "*",
    report: Path | None = None,
    keep: Path | None = None,
    listed: Annotated[bool, Parameter(name="--list", negative=())] = False,
    board: Annotated[bool, Parameter(name="--tensorboard", negative=())] = False,
    json: bool = False,
) -> None:
    """Rerun an experiment of the papers, and set the result beside theirs.

    A run that was stopped, by Ctrl-C or otherwise, resumes bit-identically with the same command.
    On several processes: torchrun --no-python --nproc-per-node 4 anyseq reproduce NAME (or
    accelerate launch).

    Parameters
    ----------
    name
        What `anyseq reproduce --list` lists.
    scale
        tiny (seconds), small (minutes on two cores), medium (up to an hour) or paper (a cluster).
    seeds
        How often each setting is run.
    out
        The folder for checkpoints and results.json; experiments can share it.
    data
        A folder with the experiment's files; without it, what every machine has.
    only
        The settings whose names match this, such as "*, 4 layers"; another process can run others.
    report
        Run nothing: write report.md and a picture for each experiment into this folder of results,
        or of a results.json alone.
    keep
        With --report: put the results into this folder of kept ones, without their checkpoints,
        and write its report.
    listed
        Run nothing: list the experiments.
    board
        Write the losses for TensorBoard, too, into --out.
    json
        Print JSON.
    """
    if sum((name is not None, report is not None, listed)) != 1:
        raise InvalidArgument("reproduce: expected one of NAME, --list and --report DIR")
    if keep is not None and report is None:
        raise InvalidArgument(
            f"--keep {keep}: expected --report DIR with it, whose results to keep"
        )
    if listed:
        _list(json)
    elif report is not None:
        _report(report, keep, json)
    elif name is not None:
        from anyseq.experiments import is_main_process, tensorboard, unwatched
        from anyseq.experiments import reproduce as rerun

        curves = tensorboard(out, name, scale) if board else nullcontext(unwatched)
        with _bar(name) as show, curves as note:

            def watch(sight: Sight) -> None:
                show(sight)
                note(sight)

            found = rerun(
                name, scale=scale, seeds=seeds, out=out, data=data, only=only, watch=watch
            )
        if is_main_process():
            _print([found], json)


def _list(json: bool) -> None:
    from anyseq.experiments import EXPERIMENTS

    rows = [(each.name, each.paper, each.claim) for each in EXPERIMENTS.values()]
    if json:
        say_json([dict(zip(("name", "paper", "claim"), row, strict=True)) for row in rows])
    else:
        say("\n".join(f"{name} (paper {paper})\n{_wrapped(claim)}" for name, paper, claim in rows))


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 80, initial_indent="    ", subsequent_indent="    ")


def _report(folder: Path, keep: Path | None, json: bool) -> None:
    from anyseq.base import write_text
    from anyseq.experiments import keep as put
    from anyseq.experiments import kept_tables, report_text, tables, write_results
    from anyseq.pictures.curves import curves_figure
    from anyseq.pictures.experiment import experiment_figure
    from anyseq.pictures.style import save

    found = tables(folder)
    if found:
        write_results(folder)
    else:
        found = kept_tables(folder)
    if not found:
        raise FileProblem(f"--report {folder}: no finished run is there, and no results.json")
    if keep is not None:
        folder = keep
        found = put(found, folder)
    parts = ["# Experiments: tables\n"]
    for table in found:
        name = f"{table.experiment}-{table.scale}"
        pictures = {name: experiment_figure(table), f"{name}-curves": curves_figure(table)}
        parts.append(report_text([table]))
        for file, picture in pictures.items():
            if picture is not None:
                save(picture, folder / f"{file}.png")
                parts.append(f"![{table.experiment}]({file}.png)\n")
    write_text(folder / "report.md", "\n".join(parts))
    _print(found, json)
    if not json:
        say(f"written to {folder / 'report.md'}")


def _print(found: Sequence[Table], json: bool) -> None:
    if json:
        say_json([row for table in found for row in table.rows])
        return
    from rich.console import Console

    from anyseq.experiments import report_text

    console = Console()
    if console.is_terminal:
        from rich.markdown import Markdown

        console.print(Markdown(report_text(found)))
    else:
        say(report_text(found))


@contextmanager
def _bar(name: str) -> Iterator[Watch]:
    """The run that goes on: step, loss, steps per second, and the time that is left of it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from anyseq.experiments import is_main_process

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,}/{task.total:,}  loss {task.fields[loss]:.4f}"),
        TextColumn("{task.fields[speed]:.1f} steps/s"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not (console.is_terminal and is_main_process()),
    )
    task = bar.add_task(name, total=1, loss=float("nan"), speed=0.0)

    def show(sight: Sight) -> None:
        bar.update(
            task,
            description=f"{name}: {sight.setting}, seed {sight.seed}",
            completed=sight.step,
            total=sight.steps,
            loss=sight.loss,
            speed=sight.steps_per_second,
        )

    with bar:
        yield show
