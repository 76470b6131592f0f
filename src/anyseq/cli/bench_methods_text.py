"""The figures of `anyseq bench methods` as text, 80 columns wide at most."""

from __future__ import annotations

import textwrap
from typing import Any

from anyseq.base import table


def methods_text(figures: dict[str, Any]) -> str:
    return "\n\n".join([_functions(figures), _plainly(figures), _equal(figures)])


def _functions(figures: dict[str, Any]) -> str:
    rows, function = [], ""
    for row in figures["rows"]:
        if row["function"] != function:
            function = row["function"]
            rows.append((function, *[""] * 6))
        rows.append(
            (
                f"  {row['what']}",
                "-" if row["proved"] is None else f"{row['proved']:.3f}",
                f"{row['seen']:.4f}",
                "-" if row["layers"] is None else f"{row['layers']:,}",
                f"{row['parameters']:,}",
                "-" if row["nonzero"] is None else f"{row['nonzero']:,}",
                f"{row['seconds']:.1f}",
            )
        )
    head = f"{figures['tokens']} tokens, asked {figures['tol']:g} in L^2"
    return table((head, "proved", "seen", "layers", "parameters", "nonzero", "s"), rows)


def _plainly(figures: dict[str, Any]) -> str:
    """Where the usual means are smaller."""
    functions: dict[str, list[dict[str, Any]]] = {}
    for row in figures["rows"]:
        functions.setdefault(row["function"], []).append(row)
    smaller: dict[str, list[str]] = {"Chebyshev": [], "Transformer": [], "ReLU MLP": []}
    for name, rows in functions.items():
        ours = min(row["parameters"] for row in rows if row["proved"] is not None)
        for usual, where in smaller.items():
            (row,) = (row for row in rows if row["what"].startswith(usual))
            if row["seen"] <= figures["tol"] and row["parameters"] < ours:
                where.append(name)
    total = len(functions)
    lines = [
        f"{usual}: within the tolerance where seen, and smaller than every proved network, for "
        f"{len(where)} of {total} functions{': ' if where else ''}{', '.join(where)}."
        for usual, where in smaller.items()
    ]
    lines.append("None of the three comes with a proof.")
    return "\n".join(textwrap.fill(line, 80, subsequent_indent="  ") for line in lines)


def _equal(figures: dict[str, Any]) -> str:
    def size(number: int | None, yun: int) -> tuple[str, str]:
        return ("-", "-") if number is None else (f"{number:,}", f"{yun / number:.2g} x")

    rows = [
        (
            f"{row['function']}, {row['tokens']} tokens",
            f"{row['error']:.3f}",
            f"{row['yun']:,}",
            *size(row["gather"], row["yun"]),
            *size(row["gather_curvature"], row["yun"]),
        )
        for row in figures["equal_error"]
    ]
    head = ("equal proved L^2 error", "error", "yun", "gather", "fewer", "curvature", "fewer")
    return table(head, rows)
