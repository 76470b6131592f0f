"""The figure of an experiment: its metric for each setting, beside the paper's."""

from __future__ import annotations

import textwrap
from itertools import groupby
from typing import NamedTuple

from matplotlib.figure import Figure

from anyseq.experiments import EXPERIMENTS, Table
from anyseq.pictures.style import COLOURS, INK, figure

_INCHES_A_SETTING = 0.28
_GAP = 0.6  # between groups, in bars
UNITS = {
    "accuracy": "accuracy, share of right answers",
    "bleu": "BLEU, points of 100",
    "mae": "mean absolute error, units of the target",
    "perplexity": "perplexity, a token",
    "time_against_rpe": "time of a training step, multiples of that with rpe",
}


class Bar(NamedTuple):
    """A setting, what it is called within its group, and its place."""

    setting: str
    label: str
    place: float


def experiment_figure(table: Table) -> Figure | None:
    """A bar for the mean, a dot for each seed, a mark for the paper's number; settings that share a
    part of their name stand together. None: no run has the metric yet."""
    experiment = EXPERIMENTS[table.experiment]
    metric = experiment.metric.name
    means = table.means(metric)
    if not means:
        return None
    groups = grouped(list(means))
    bars = [bar for _, members in groups for bar in members]
    end = bars[-1].place + 1
    made, (panel,) = figure(1, width=7.2, height=1.7 + _INCHES_A_SETTING * end)
    for number, (name, members) in enumerate(groups):
        colour = COLOURS[number % len(COLOURS)] if name else COLOURS[0]
        for bar in members:
            panel.barh(bar.place, means[bar.setting], color=colour, alpha=0.55, height=0.75)
        if name:
            panel.text(
                1.01, members[0].place, name, transform=panel.get_yaxis_transform(), va="center",
                fontsize=9, fontweight="bold", color=colour,
            )  # fmt: skip
    for bar in bars:
        seeds = [
            row["value"]
            for row in table.rows
            if (row["setting"], row["metric"]) == (bar.setting, metric)
        ]
        panel.plot(seeds, [bar.place] * len(seeds), "o", ms=3, color=INK)
        if bar.setting in experiment.published:
            published = experiment.published[bar.setting]
            panel.plot(published, bar.place, "|", ms=14, mew=2.5, color=INK)
    panel.plot([], [], "o", ms=3, ls="", color=INK, label="a seed")
    if experiment.published:
        panel.plot([], [], "|", ms=10, mew=2.5, ls="", color=INK, label=f"paper {experiment.paper}")
    panel.set_yticks([bar.place for bar in bars], [bar.label for bar in bars])
    panel.set_ylim(end - 0.4, -0.6)
    better = "higher" if experiment.metric.higher_is_better else "lower"
    panel.set_xlabel(f"{UNITS.get(metric, metric.replace('_', ' '))} ({better} is better)")
    made.suptitle(headline(table), fontsize=10, color=INK)
    made.legend(loc="outside lower right", ncols=2, fontsize=8, frameon=False)
    return made


def headline(table: Table) -> str:
    """The experiment, the scale, and the claim."""
    name = table.experiment.replace("-", " ").capitalize()
    says = textwrap.fill(EXPERIMENTS[table.experiment].claim, 88)
    return f"{name}, at scale {table.scale}\n{says}"


def grouped(settings: list[str]) -> list[tuple[str, list[Bar]]]:
    """Neighbours whose names are alike before the first comma, or after it, whichever makes fewer
    groups; one group without a name, if neither makes any."""
    parts = {setting: setting.partition(", ")[::2] for setting in settings}
    sides = [
        [(name, list(one)) for name, one in groupby(settings, key=lambda s: parts[s][side])]
        for side in (0, 1)
    ]
    side = int(len(sides[1]) < len(sides[0]))
    found = sides[side] if len(sides[side]) < len(settings) else [("", settings)]
    groups: list[tuple[str, list[Bar]]] = []
    place = 0.0
    for name, members in found:
        bars = []
        for setting in members:
            other = parts[setting][1 - side] if len(members) > 1 and name else setting
            bars.append(Bar(setting, other or setting, place))
            place += 1
        groups.append((name if len(members) > 1 else "", bars))
        place += _GAP
    return groups
