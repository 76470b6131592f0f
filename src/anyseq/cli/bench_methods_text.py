"""The figures of `anyseq bench methods` as text, 80 columns wide at most."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
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
    head = f"{figures['tokens']} tokens, tol {figures['tol']:g} in L^2"
    return table((head, "proven", "measured", "layers", "parameters", "nonzero", "s"), rows)


def _plainly(figures: dict[str, Any]) -> str:
    """Where the usual means are smaller, or closer."""
    functions: dict[str, list[dict[str, Any]]] = {}
    for row in figures["rows"]:
        functions.setdefault(row["function"], []).append(row)
    lines = []
    for usual in ("Chebyshev", "Transformer", "ReLU MLP"):
        smaller, closer = [], []
        for name, rows in functions.items():
            proved = [row for row in rows if row["proved"] is not None]
            (row,) = (row for row in rows if row["what"].startswith(usual))
            least = min(other["parameters"] for other in proved)
            if row["seen"] <= figures["tol"] and row["parameters"] < least:
                smaller.append(name)
            if row["seen"] < min(other["seen"] for other in proved):
                closer.append(name)
        lines.append(
            f"{usual}: smaller than every proven network, with a measured error within the "
            f"tolerance, for {_names(smaller, len(functions))}; with a smaller measured error than "
            f"every one for {_names(closer, len(functions))}."
        )
    lines.append("None of the three comes with a proof.")
    return "\n".join(textwrap.fill(line, 80, subsequent_indent="  ") for line in lines)


def _names(names: list[str], total: int) -> str:
    if len(names) == total:
        return "all functions"
    listed = f" ({', '.join(names)})" if names else ""
    return f"{len(names)} of {total}{listed}"


def _equal(figures: dict[str, Any]) -> str:
    rows, head = [], ""
    for row in figures["equal_error"]:
        if head != f"{row['function']}, {row['tokens']} tokens":
            head = f"{row['function']}, {row['tokens']} tokens"
            rows.append((head, *[""] * 6))
        rows.append(
            (
                f"  {row['error']:.4f}",
                f"{row['yun']:,}",
                f"{row['yun_nonzero']:,}",
                f"{row['gather_curvature']:,}",
                _times(row["yun"] / row["gather_curvature"]),
                f"{row['gather_curvature_nonzero']:,}",
                _times(row["yun_nonzero"] / row["gather_curvature_nonzero"]),
            )
        )
    columns = ("equal L^2 error", "yun", "nonzero", "gather", "fewer", "nonzero", "fewer")
    told = [_alone(figures["equal_error"]), *_hundred(figures["equal_error"])]
    lines = [textwrap.fill(line, 80, subsequent_indent="  ") for line in told]
    return "\n\n".join([table(columns, rows), "\n".join(lines)])


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}x" if ratio >= 10 else f"{ratio:.2g}x"


def _alone(rows: list[dict[str, Any]]) -> str:
    """What becomes of "gather" if only the Lipschitz constant is known."""
    ratios = [row["yun"] / row["gather"] for row in rows]
    larger = sum(ratio < 1 for ratio in ratios)
    return (
        f"By the Lipschitz constant alone gather is the larger network in {larger} of the "
        f"{len(rows)} rows: {_times(min(ratios))} to {_times(max(ratios))}."
    )


def _hundred(rows: list[dict[str, Any]]) -> Iterator[str]:
    """By the number of tokens, and of all parameters and those not 0: from which error on "gather"
    has a hundred times fewer, and where not."""
    for tokens in dict.fromkeys(row["tokens"] for row in rows):
        own = [row for row in rows if row["tokens"] == tokens]
        for what, count in (("all parameters", ""), ("parameters not 0", "_nonzero")):
            yield f"{tokens} tokens, by {what}, 100x or more from this error on: " + _from_where(
                own, f"yun{count}", f"gather_curvature{count}"
            )


def _from_where(rows: list[dict[str, Any]], yun: str, gather: str) -> str:
    reached, never, lost = [], [], []
    for name in dict.fromkeys(row["function"] for row in rows):
        own = [row for row in rows if row["function"] == name]
        many = [row[yun] >= 100 * row[gather] for row in own]
        if not any(many):
            never.append(name)
            continue
        first = many.index(True)
        reached.append(f"{name} {own[first]['error']:.2g}")
        less = [row["error"] for row, yes in zip(own, many, strict=True) if not yes]
        lost += [f"{name} {error:.2g}" for error in less if error < own[first]["error"]]
    text = f"{', '.join(reached) or 'none'}."
    if lost:
        text += f" Of the smaller errors listed, not at: {', '.join(lost)}."
    return text + (f" Not reached: {', '.join(never)}." if never else "")
