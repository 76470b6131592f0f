"""The figures of `anyseq bench check`."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from anyseq.pictures.style import COLOURS, figure

_ROUND = [digit * 10.0**power for power in range(-3, 5) for digit in (1, 2, 5)]
_STROKES = ("-", "--", ":")


def bench_check_figure(figures: dict[str, Any]) -> Figure:
    """Seconds and memory of a verdict against the number of tokens."""
    made, (time, memory) = figure(2, width=4.6, height=3.8)
    lines: dict[str, list[str]] = {}  # a colour for each pattern, a stroke for each position
    for name in dict.fromkeys(row["pattern"] for row in figures["verdicts"]):
        lines.setdefault(name.split()[0], []).append(name)
    styles = {
        name: {"color": colour, "linestyle": stroke}
        for names, colour in zip(lines.values(), COLOURS, strict=False)
        for name, stroke in zip(names, _STROKES, strict=False)
    }
    for name, drawn in styles.items():
        rows = [row for row in figures["verdicts"] if row["pattern"] == name]
        tokens = [row["tokens"] for row in rows]
        style: dict[str, Any] = drawn | {"marker": "o", "ms": 4, "label": name}
        time.plot(tokens, [row["seconds"] for row in rows], **style)
        memory.plot(tokens, [max(row["extra_bytes"], 1e6) / 1e6 for row in rows], **style)
    lengths = sorted({row["tokens"] for row in figures["verdicts"]})
    for panel, title in ((time, "seconds for a verdict"), (memory, "MB for a verdict")):
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_xticks(lengths, [f"{n:,}" for n in lengths])
        panel.minorticks_off()
        low, high = panel.get_ylim()
        ticks = [tick for tick in _ROUND if low <= tick <= high]
        panel.set_yticks(ticks, [f"{tick:,g}" for tick in ticks])
        panel.set_xlabel("tokens")
        panel.set_title(title, fontsize=10)
    memory.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return made
