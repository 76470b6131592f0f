"""`anyseq bench`."""

from __future__ import annotations

import json as json_format
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from anyseq.cli.terminal import progress_bar, say, say_json
from anyseq.errors import FileProblem, InvalidArgument

# What is slow to import is imported where it is used, so that --help is not.

_DRAWN = ("attention", "check")
_SHORTENED = ("methods", "hf", "everyday")
_CROWDED = ("attention", "hf")


def bench(
    what: Literal[
        "construct",
        "attention",
        "check",
        "methods",
        "adaptive",
        "fit",
        "training",
        "hf",
        "everyday",
    ],
    /,
    *,
    json: bool = False,
    into: Path | None = None,
    out: Path | None = None,
    quick: bool = False,
    beside: int | None = None,
) -> None:
    """Measure on this machine. Use an idle machine.

    Parameters
    ----------
    what
        construct: building, saving, loading and evaluating constructed networks.
        attention: patterns and positions beside torch and, if they are installed
        (pip install "anyseq[bench]"), Hugging Face and local-attention. Some minutes.
        check: what a verdict costs, against the number of tokens.
        methods: every method on every built-in function, beside Chebyshev interpolation, a trained
        Transformer and a ReLU MLP. Some minutes.
        adaptive: nodes where the error is, against as many everywhere, for method "gather".
        fit: networks fitted to functions of up to 64 dimensions. Some minutes.
        training: a step of every experiment at small, beside torch's own parts
        (pip install "anyseq[experiments]"). Some minutes.
        hf: a training step of Hugging Face models (pip install "anyseq[hf]") as they are, beside
        transformers' own attention, in time and memory. Half an hour.
        everyday: half precision, padding, images, compiling and exporting, beside torch's own
        attention. Some minutes.
    json
        Print JSON.
    into
        A text file, such as docs/measured.md, whose lines between `<!-- bench construct -->` (or
        another of these names) and `<!-- end -->` are replaced by the figures.
    out
        attention and check only: a folder for their JSON and picture; bench-attention or
        bench-check unless given.
    quick
        methods: a few functions, hardly any training, and equal errors for 2 tokens. hf
        and everyday: tiny models, to see that they run.
    beside
        attention and hf only: how many busy processes the everyday shapes, or the models, are
        measured beside, after the quiet measurement. They are started and ended by the bench; 2
        unless given, 0 for none.
    """
    from anyseq.base import whole
    from anyseq.bench import bench_attention, bench_everyday, bench_hf, bench_methods
    from anyseq.cli.benches import BENCHES

    _check_taken("--out", out is not None, what, _DRAWN)
    _check_taken("--quick", quick, what, _SHORTENED)
    _check_taken("--beside", beside is not None, what, _CROWDED)
    if into is not None:
        _replace_block(into, what, None)
    measure, text_of = BENCHES[what]
    with progress_bar() as progress:
        if what == "methods":
            figures = bench_methods(progress, quick)
        elif what == "hf":
            busy = 2 if beside is None else whole("beside", beside)
            figures = bench_hf(progress, beside=busy, quick=quick)
        elif what == "everyday":
            figures = bench_everyday(progress, quick=quick)
        elif what == "attention" and beside is not None:
            figures = bench_attention(progress, beside=whole("beside", beside))
        else:
            figures = measure(progress)
    if what in _DRAWN:
        _write(what, figures, out or Path(f"bench-{what}"))
    if json:
        say_json(figures)
    else:
        say(text_of(figures))
    if into is not None:
        _replace_block(into, what, text_of(figures))


def _check_taken(option: str, given: bool, what: str, takers: Sequence[str]) -> None:
    """An option that would change nothing is refused."""
    if given and what not in takers:
        names = " and ".join(f"bench {name}" for name in takers)
        raise InvalidArgument(f"{option} is of no use to bench {what}: it is for {names}")


def _write(what: str, figures: dict[str, Any], folder: Path) -> None:
    from anyseq.base import write_text
    from anyseq.pictures.bench import bench_figure
    from anyseq.pictures.bench_check import bench_check_figure
    from anyseq.pictures.style import save

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise FileProblem(f"--out {folder} cannot be made: {problem}") from problem
    draw = bench_figure if what == "attention" else bench_check_figure
    write_text(folder / f"{what}.json", json_format.dumps(figures, indent=2))
    save(draw(figures), folder / f"{what}.png")


def _replace_block(file: Path, what: str, text: str | None) -> None:
    """Put the text between the marks of the file; with None only see that the marks are there."""
    from anyseq.base import write_text

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
