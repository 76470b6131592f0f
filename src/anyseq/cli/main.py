"""`anyseq ...`: exit 0 ok, 1 a "no" that was asked about, 2 bad input with one clear line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from textwrap import fill

import torch
from cyclopts import App, CycloptsError

import anyseq
from anyseq.cli.approximate import approximate
from anyseq.cli.bench import bench
from anyseq.cli.check import check
from anyseq.cli.compare import compare
from anyseq.cli.demo import demo
from anyseq.cli.plan import plan
from anyseq.cli.reproduce import reproduce
from anyseq.cli.show import show
from anyseq.errors import AnyseqError, CannotApproximate
from anyseq.ops import native_text

_LONGEST = 1200

app = App(
    name="anyseq",
    help="What can a Transformer express? Run it and see.",
    version=lambda: _version(),
    suppress_keyboard_interrupt=False,
)
app.command(demo)
app.command(check)
app.command(compare)
app.command(plan)
app.command(approximate)
app.command(show)
app.command(bench)
app.command(reproduce)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit."""
    try:
        app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except (AnyseqError, CycloptsError) as problem:
        sys.stderr.write(_lines(problem) + "\n")
        sys.exit(2)
    except KeyboardInterrupt as stopped:
        sys.stderr.write(f"anyseq: {str(stopped) or 'stopped'}\n")
        sys.exit(130)
    sys.exit(0)


def _version() -> str:
    """This package, torch, and whether attention has its native kernel."""
    return f"{anyseq.__version__}\ntorch {torch.__version__}\nnative kernel: {native_text()}"


def _lines(problem: Exception) -> str:
    """One line; if there are several reasons, these below, as wide as a terminal."""
    if isinstance(problem, CannotApproximate) and len(problem.reasons) > 1:
        reasons = [
            fill(reason, 80, initial_indent="  ", subsequent_indent="    ")
            for reason in problem.reasons
        ]
        return "\n".join([f"anyseq: {problem.summary}", *reasons])
    line = " ".join(str(problem).split())
    if len(line) > _LONGEST:  # it repeats what came, however long that is
        line = f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 2 :]}"
    return f"anyseq: {line}"
