"""`anyseq demo`, and the lectures."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from anyseq.cli.terminal import progress_bar, say
from anyseq.errors import FileProblem

if TYPE_CHECKING:
    from anyseq.construct import Approximation

# What is slow to import is imported where it is used, so that --help is not.

_TOLERANCES = (0.8, 0.4, 0.2, 0.1)
_PURPOSE = """\
A function f of two tokens is turned into a Transformer, by two methods.
"gather" copies the whole sequence into every token; "yun" gives every token an
id that identifies it and its sequence. Nothing is trained: every weight follows
from f, with a proven error bound. docs/methods.md describes the methods.
"""
_COLUMNS = """\
A plan has a line for each method. δ: the step of a grid of inputs; layers,
width, parameters: of the network; cells: grid cells, for "gather" grid points,
with one value of f each; id bits: of the largest id, of the 53 that float64
holds; error: proven upper bound; ~s: seconds to build.
"""
_NEXT = """
Next:
  anyseq play              run such networks in a browser, or check a design
  anyseq demo --lecture 1  one such network, explained stage by stage"""
_TASKS = {"gather, sup norm": ("gather", "sup"), "yun, L^2 norm": ("yun", "lp")}


def demo(*, lecture: Literal[1, 2, 3] | None = None, out: Path = Path("anyseq-demo")) -> None:
    """A function becomes a Transformer, twice, with errors, sizes and pictures; or a lecture.

    Parameters
    ----------
    lecture
        Give a lecture of five minutes instead. 1: an explicit Transformer reverses three numbers,
        stage by stage. 2: on equal tokens RoPE is flat and URPE fits. 3: which sparse pattern needs
        how many layers.
    out
        The folder for the pictures.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise FileProblem(f"--out {out} cannot be made: {problem}") from problem
    if lecture is None:
        _two_networks(out)
    else:
        _lecture(lecture, out)


def _lecture(number: int, out: Path) -> None:
    from anyseq.lectures import LECTURES
    from anyseq.pictures import save

    for slide in LECTURES[number]():
        say(f"{slide}\n")
        for name, picture in slide.pictures:
            save(picture, out / f"{name}.png")
            say(f"Picture: {out / name}.png\n")


def _two_networks(out: Path) -> None:
    from anyseq.base import table
    from anyseq.construct import FUNCTIONS, approximate, plan
    from anyseq.design import Design

    design, example = Design(tokens=2), FUNCTIONS["waves"]
    lipschitz = example.lipschitz(2, 1)
    tol = _TOLERANCES[-1]
    say(_PURPOSE)
    say(f"f(x) = {example.text} for 2 tokens of 1 feature, {lipschitz:.4g}-Lipschitz.")
    say("Dense softmax attention, absolute positions. What would it take?\n")
    say(_COLUMNS)
    for norm in ("sup", "lp"):
        say(f"{plan(design, 1, tol, lipschitz=lipschitz, norm=norm)}\n")

    series: dict[str, list[Approximation]] = {}
    rows = []
    with progress_bar() as progress:
        for label, (method, norm) in _TASKS.items():
            for wanted in _TOLERANCES:
                start = time.perf_counter()
                result = approximate(
                    example,
                    design,
                    features=1,
                    tol=wanted,
                    norm=norm,
                    method=method,
                    lipschitz=lipschitz,
                    progress=progress,
                )
                series.setdefault(label, []).append(result)
                rows.append((label, *_row(result), f"{time.perf_counter() - start:.2f}"))
    say("Built. Error: measured lower bound <= |f - T| <= proven upper bound.\n")
    head = ("method", "tol", "proven", "measured", "layers", "parameters", "s")
    say(table(head, rows))
    _run_the_blocks([results[-1] for results in series.values()])
    _draw(out, example, series)
    say(_NEXT)


def _row(result: Approximation) -> tuple[str, ...]:
    error, size = result.error, result.size
    return (
        f"{result.facts.tol:g}",
        f"{error.upper:.4f}",
        f"{error.lower:.4f}",
        f"{size.layers:,}",
        f"{size.parameters:,}",
    )


def _run_the_blocks(results: list[Approximation]) -> None:
    import torch

    from anyseq.base import generator, uniform

    x = uniform(64, 2, 1, rng=generator(0))
    say("\nresult.model runs every block, result(x) looks up. On 64 inputs they differ by")
    for result in results:
        with torch.no_grad():
            gap = float((result.model(x) - result(x)).abs().max())
        say(f"  {gap:.1e}  {result.method}: {result.size.layers:,} blocks")


def _draw(out: Path, example: object, series: dict[str, list[Approximation]]) -> None:
    from anyseq.construct.contextual import Contextual
    from anyseq.pictures import save, show
    from anyseq.pictures.tolerance import tolerance_figure

    pictures = {
        "slice-gather": show(series["gather, sup norm"][1], f=example),
        "slice-yun": show(series["yun, L^2 norm"][1], f=example),
        "contextual-ids": show(Contextual(2, 1, 1, 3, positions=True)),
        "error-against-tolerance": tolerance_figure(series),
    }
    say(f"\nPictures in {out}:")
    for name, picture in pictures.items():
        save(picture, out / f"{name}.png")
        say(f"  {name}.png")
