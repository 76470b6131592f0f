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
                f"  {row['setting']}",
                f"{row['own']:.1f}",
                f"{row['torch']:.1f}",
                f"{row['against_torch']:.2f} x",
                f"{row['data_share']:.1%}",
            )
            for row in group
        ]
    head = (f"steps a second, {figures['threads']} threads", "anyseq", "torch", "", "data")
    ratios = [row["against_torch"] for row in figures["training"]]
    slower = [
        f"{row['experiment']}, {row['setting']}: {row['against_torch']:.2f}"
        for row in figures["training"]
        if row["against_torch"] < 1
    ]
    gained = [row["against_rpe"] for row in figures["training"] if row["against_rpe"]]
    most = max(row["data_share"] for row in figures["training"])
    said = [
        f"{min(ratios):.2f} to {max(ratios):.2f} times torch's steps, the median "
        f"{median(ratios):.2f}. Making batches takes at most {most:.1%} of the time.",
        f"Slower than torch: {'; '.join(slower) or 'none'}.",
    ]
    if gained:
        said.append(
            f"URPE beside torch's layers without its gain: {min(gained):.2f} to {max(gained):.2f} "
            "times their steps."
        )
    filled = [textwrap.fill(line, 80, subsequent_indent="  ") for line in said]
    return "\n".join([table(head, rows), "", *filled])
