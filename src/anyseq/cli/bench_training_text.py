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
        rows.append((name, *[""] * 4))
        rows += [
            (
                f" {row['setting']}",
                f"{row['own']:.1f}",
                _ratio(row["against_torch"]),
                _ratio(row["against_formula"]),
                f"{row['data_share']:.1%}",
            )
            for row in group
        ]
    head = (f"{figures['threads']} threads", "steps/s", "to torch", "formula", "data")
    most = max(row["data_share"] for row in figures["training"])
    said = [
        *_summary(figures, "against_torch", "torch's layers (beside URPE without its gain)"),
        *_summary(figures, "against_formula", "the formula of URPE by operators"),
        f"Making batches takes at most {most:.1%} of the time.",
    ]
    filled = [textwrap.fill(line, 80, subsequent_indent="  ") for line in said]
    return "\n".join([table(head, rows), "", *filled])


def _ratio(found: dict[str, float] | None) -> str:
    """1.07 ± 2%."""
    if found is None:
        return ""
    return f"{found['ratio']:.2f} ±{found['high'] / found['ratio'] - 1:3.0%}"


def _summary(figures: dict[str, Any], ratio: str, other: str) -> list[str]:
    """A line, if anybody is set beside the other."""
    rows = [row for row in figures["training"] if row[ratio]]
    if not rows:
        return []
    ratios = [row[ratio]["ratio"] for row in rows]
    faster = sum(row[ratio]["low"] > 1 for row in rows)
    slower = [
        f"{row['experiment']}, {row['setting']}: {row[ratio]['ratio']:.2f}"
        for row in rows
        if row[ratio]["high"] < 1
    ]
    open_rows = len(rows) - faster - len(slower)
    return [
        f"{min(ratios):.2f} to {max(ratios):.2f} times the steps of {other}, the median "
        f"{median(ratios):.2f}; of {len(rows)} faster: {faster}, within the noise: {open_rows}, "
        f"slower: {'; '.join(slower) or 'none'}."
    ]
