"""Plain text: tables, and numbers in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns two spaces apart: the first to the left, the others to the right."""
    columns = list(zip(head, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]

    def line(cells: Sequence[str]) -> str:
        first, *rest = zip(cells, widths, strict=True)
        return "  ".join([first[0].ljust(first[1]), *(cell.rjust(w) for cell, w in rest)]).rstrip()

    return "\n".join([line(head), "-" * (sum(widths) + 2 * len(widths) - 2), *map(line, rows)])


def layers_text(count: int, kind: str = "") -> str:
    """A number of layers, in words; kind: a word before "layers", such as "more "."""
    return f"{count:,} {kind}layer" + "s" * (count != 1)


def layers_named(layers: Sequence[int]) -> str:
    """ "layer 3", or "layers 1-4, 6"; of very many runs the first few."""
    runs = []
    for _, group in groupby(enumerate(layers), lambda pair: pair[1] - pair[0]):
        run = [layer for _, layer in group]
        runs.append(f"{run[0]}" if len(run) == 1 else f"{run[0]}-{run[-1]}")
    shown = ", ".join(runs[:6]) + ", ..." * (len(runs) > 6)
    return f"layer{'s' * (len(layers) > 1)} {shown}"


def outside_brackets(text: str, mark: str) -> list[str]:
    """What stands between marks that are in no brackets."""
    parts, depth, at = [""], 0, 0
    while at < len(text):
        if depth == 0 and text.startswith(mark, at):
            parts.append("")
            at += len(mark)
            continue
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        parts[-1] += text[at]
        at += 1
    return [part.strip() for part in parts]


def rounded_down(number: float) -> str:
    """A lower bound in at least four digits, rounded so that it stays a lower bound."""
    if number >= 1000:
        whole = math.floor(number * 10) / 10
        return f"{whole:,.1f}".removesuffix(".0")
    digits = 3 - math.floor(math.log10(number)) if number > 0 else 1
    return f"{math.floor(number * 10**digits) / 10**digits:.{digits}f}".rstrip("0").rstrip(".")
