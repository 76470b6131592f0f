"""`anyseq ...`: exit 0 ok, 1 a "no" that was asked about, 2 bad input with one clear line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from textwrap import fill
from typing import Any

from cyclopts import App, CoercionError, CycloptsError

import anyseq
from anyseq.errors import AnyseqError, CannotApproximate

_LONGEST = 1200

app = App(
    name="anyseq",
    help="What can a Transformer express? Run it and see.",
    version=lambda: _version(),
    suppress_keyboard_interrupt=False,
)
_COMMANDS = {
    "approximate": "Turn a function into an explicit Transformer, with its error.",
    "audit": "Does a model attend as it declares? Leaks, lost windows, padding, caches, each with "
    "the pair of tokens that shows it. Exit with 1 if there is a fault.",
    "bench": "Measure on this machine. Use an idle machine.",
    "check": "Can this attention design express every function? What it can and cannot do, why, "
    "and the cheapest repairs.",
    "compare": "Designs and models side by side: what they can express, when all tokens have met, "
    "how weak the routes are, what a token costs, where positions come from.",
    "demo": "A function becomes a Transformer, twice, with errors, sizes and pictures; or a "
    "lecture.",
    "explain": "What each stage of a saved network does to one input: as text, as a picture, or "
    "animated, layer by layer.",
    "plan": "What each method would build, with sizes, before anything is built.",
    "play": "Open the playground in your browser: check designs, step through networks, attack "
    "them. It runs on this machine until Ctrl-C.",
    "reproduce": "Rerun an experiment of the papers, and set the result beside theirs.\n\n"
    "A run that was stopped, by Ctrl-C or otherwise, resumes bit-identically with the same "
    "command. On several processes: torchrun --no-python --nproc-per-node 4 anyseq reproduce NAME "
    "(or accelerate launch).",
    "show": "Describe a saved network, or the layers of a design; draw, animate or export it if "
    "asked.",
}
for _name, _help in _COMMANDS.items():  # each is imported when it is run
    app.command(f"anyseq.cli.{_name}:{_name}", help=_help)


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
    import torch

    from anyseq.ops import native_text

    return f"{anyseq.__version__}\ntorch {torch.__version__}\nnative kernel: {native_text()}"


def _lines(problem: Exception) -> str:
    """One line, wrapped where a terminal shows it; if there are several reasons, these below."""
    if isinstance(problem, CannotApproximate) and len(problem.reasons) > 1:
        reasons = [
            fill(reason, 80, initial_indent="  ", subsequent_indent="    ")
            for reason in problem.reasons
        ]
        return "\n".join([f"anyseq: {problem.summary}", *reasons])
    line = " ".join(_said(problem).split())
    if len(line) > _LONGEST:  # it repeats what came, however long that is
        line = f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 2 :]}"
    line = f"anyseq: {line}"
    return fill(line, 80, subsequent_indent="  ") if sys.stderr.isatty() else line


def _said(problem: Exception) -> str:
    """What is wrong; of a number that is none, which option it was for."""
    if isinstance(problem, CoercionError) and problem.token is not None:
        kinds: dict[Any, str] = {int: "a whole number", float: "a number"}
        kind = kinds.get(getattr(problem, "target_type", None))
        if kind is not None:
            return f"{problem.token.keyword or 'argument'}: {problem.token.value!r} is not {kind}"
    return str(problem)
