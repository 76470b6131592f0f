"""`anyseq bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from anyseq.base import table, write_text
from anyseq.bench import bench_construct
from anyseq.cli.terminal import progress_bar, say, say_json
from anyseq.errors import FileProblem


def bench(what: Literal["construct"], /, *, json: bool = False, into: Path | None = None) -> None:
    """Measure on this machine.

    Parameters
    ----------
    what
        construct: building, saving, loading and evaluating constructed networks.
    json
        Print JSON.
    into
        A text file, such as README.md, whose lines between `<!-- bench construct -->` and
        `<!-- end -->` are replaced by the figures.
    """
    if into is not None:
        _replace_block(into, what, None)
    with progress_bar() as progress:
        figures = bench_construct(progress)
    if json:
        say_json(figures)
        return
    fused, nodes, deep = figures["yun_fused"], figures["gather_nodes"], figures["yun_deep"]
    by_nodes = nodes["seconds_by_nodes"].items()
    rows = [
        (
            f"yun, {fused['layers']:,} layers, layer by layer",
            _time(fused["layer_by_layer_seconds"]),
        ),
        ("the same, fused", _time(fused["fused_seconds"])),
        ("ratio", f"{fused['ratio']:,.0f} x"),
        ("largest difference", f"{fused['largest_difference']:.1g}"),
        *((f"gather, {int(count):,} nodes, fused", _time(taken)) for count, taken in by_nodes),
        ("ratio of the last to the first", f"{nodes['ratio']:.2f} x"),
        (f"yun, {deep['layers']:,} layers, build", _time(deep["build_seconds"])),
        ("the same, save", f"{_time(deep['save_seconds'])}, {deep['megabytes']:.0f} MB"),
        ("the same, load", _time(deep["load_seconds"])),
    ]
    text = table(("construct, batch 512", "median"), rows)
    say(text)
    if into is not None:
        _replace_block(into, what, text)


def _replace_block(file: Path, what: str, text: str | None) -> None:
    """Put the text between the marks of the file; with None only see that the marks are there."""
    first, last = f"<!-- bench {what} -->\n", "<!-- end -->"
    try:
        before, mark, rest = file.read_text().partition(first)
    except (OSError, UnicodeDecodeError) as problem:
        raise FileProblem(f"--into {file} cannot be read: {problem}") from problem
    _, end, after = rest.partition(last)
    if not mark or not end:
        raise FileProblem(f"--into {file}: it has no lines {first.strip()} and {last}")
    if text is not None:
        write_text(file, f"{before}{mark}```text\n{text}\n```\n{end}{after}")


def _time(taken: float) -> str:
    return f"{taken:.2f} s" if taken >= 0.1 else f"{1000 * taken:.2f} ms"
