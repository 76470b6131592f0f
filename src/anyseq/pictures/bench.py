"""The figures of `anyseq bench attention`."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from anyseq.pictures.style import COLOURS, INK, figure


def bench_figure(figures: dict[str, Any]) -> Figure:
    """Time of a training step for everybody, and how anyseq's time and memory grow."""
    made, (times, growth) = figure(2, width=5.6, height=5.2)
    names, places, place = [], [], 0.0
    pattern = None
    for row in figures["training"]:
        if row["pattern"] != pattern:
            pattern = row["pattern"]
            place += 0.8
            names.append(pattern.partition("(")[0])
            places.append(place)
            times.axhline(place - 0.9, color=INK, lw=0.3, alpha=0.3)
            place += 0.9
        ours = row["contestant"].startswith("anyseq")
        times.barh(place, row["seconds"], color=COLOURS[0 if ours else 1], height=0.75)
        times.text(
            row["seconds"] * 1.08, place, f"{row['contestant']}, {_time(row['seconds'])}",
            va="center", fontsize=7.5, color=INK,
        )  # fmt: skip
        place += 1
    times.set_yticks(places, names, fontweight="bold")
    times.tick_params(axis="y", length=0)
    times.invert_yaxis()
    times.set_xscale("log")
    slowest = max(row["seconds"] for row in figures["training"])
    times.set_xlim(right=slowest * 12)
    times.set_xlabel("seconds")
    times.set_title(f"training step, {figures['tokens']:,} tokens", fontsize=10)

    for case, colour in zip(figures["growth"], COLOURS, strict=False):
        steps = case["steps"]
        label = case["pattern"].partition("(")[0]
        tokens = [step["tokens"] for step in steps]
        growth.plot(tokens, [step["seconds"] for step in steps], color=colour, marker="o", ms=4,
                    label=f"{label}, seconds")  # fmt: skip
        growth.plot(tokens, [step["extra_bytes"] / 1e9 for step in steps], color=colour, ls="--",
                    marker="s", ms=4, label=f"{label}, extra GB")  # fmt: skip
    growth.set_xscale("log", base=2)
    growth.set_yscale("log")
    growth.set_xticks(tokens, [f"{n:,}" for n in tokens])
    growth.minorticks_off()
    growth.set_xlabel("tokens")
    growth.set_ylabel("seconds, or GB")
    growth.legend(fontsize=8, frameon=False)
    growth.set_title("anyseq: time and memory of a training step", fontsize=10)
    return made


def _time(taken: float) -> str:
    return f"{taken:.2f} s" if taken >= 0.1 else f"{1000 * taken:.0f} ms"
