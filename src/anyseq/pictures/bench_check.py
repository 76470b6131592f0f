"""The figures of `anyseq bench check`."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from anyseq.pictures.style import COLOURS, figure


def bench_check_figure(figures: dict[str, Any]) -> Figure:
    """Seconds and memory of a verdict against the number of tokens."""
    made, (time, memory) = figure(2, width=4.6, height=3.8)
    names = list(dict.fromkeys(row["pattern"] for row in figures["verdicts"]))
    for name, colour in zip(names, COLOURS * 2, strict=False):
        rows = [row for row in figures["verdicts"] if row["pattern"] == name]
        tokens = [row["tokens"] for row in rows]
        style = {"color": colour, "marker": "o", "ms": 4, "label": name}
        time.plot(tokens, [row["seconds"] for row in rows], **style)
        memory.plot(tokens, [max(row["extra_bytes"], 1e6) / 1e9 for row in rows], **style)
    for panel, unit in ((time, "seconds"), (memory, "extra GB")):
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_xlabel("tokens")
        panel.set_title(f"a verdict, {unit}", fontsize=10)
    time.legend(fontsize=8, frameon=False)
    return made
