"""What `anyseq bench training` prints."""

from __future__ import annotations

import textwrap
from itertools import groupby
from statistics import median
from typing import Any

from anyseq.base import table


def training_text(figures: dict[str, Any]) -> str:
    """Per experiment and setting; then who is slower than torch."""
    rows: list[tuple[str, ...]] = []
    for name, group in groupby(figures["training"], key=lambda row: row["experiment"]):
        rows.append((name, *[""] * 5))
        rows += [
            (
                f" {row['setting']}",
                f"{row['own']:.1f}",
                f"{row['torch']:.1f}",
                f"{row['against_torch']:.2f} x",
                f"{row['against_formula']:.2f} x" if row["against_formula"] else "",
                f"{row['data_share']:.1%}",
            )
            for row in group
        ]
    head = (
        f"steps a second, {figures['threads']} threads",
        "anyseq",
        "torch",
        "",
        "formula",
        "data",
    )
    most = max(row["data_share"] for row in figures["training"])
    said = [
        _summary(figures, "against_torch", "torch's layers (beside URPE without its gain)"),
        f"Making batches takes at most {most:.1%} of the time.",
    ]
    if any(row["against_formula"] for row in figures["training"]):
        said.insert(1, _summary(figures, "against_formula", "the formula of URPE by operators"))
    filled = [textwrap.fill(line, 80, subsequent_indent="  ") for line in said]
    return "\n".join([table(head, rows), "", *filled])


def _summary(figures: dict[str, Any], ratio: str, other: str) -> str:
    rows = [row for row in figures["training"] if row[ratio]]
    ratios = [row[ratio] for row in rows]
    slower = [
        f"{row['experiment']}, {row['setting']}: {row[ratio]:.2f}" for row in rows if row[ratio] < 1
    ]
    return (
        f"{min(ratios):.2f} to {max(ratios):.2f} times the steps of {other}, the median "
        f"{median(ratios):.2f}; slower: {'; '.join(slower) or 'none'}."
    )
