"""The figure of an experiment: its metric for each setting, beside the paper's."""

from __future__ import annotations

from matplotlib.figure import Figure

from anyseq.experiments import EXPERIMENTS, Table
from anyseq.pictures.style import COLOURS, INK, figure

_INCHES_A_SETTING = 0.28


def experiment_figure(table: Table) -> Figure:
    """A bar for the mean, a dot for each seed, a mark for the paper's number."""
    experiment = EXPERIMENTS[table.experiment]
    metric = experiment.metric.name
    means = table.means(metric)
    made, (panel,) = figure(1, width=6.4, height=1.4 + _INCHES_A_SETTING * len(means))
    for place, (setting, mean) in enumerate(means.items()):
        panel.barh(place, mean, color=COLOURS[0], alpha=0.55, height=0.7)
        seeds = [
            row["value"]
            for row in table.rows
            if (row["setting"], row["metric"]) == (setting, metric)
        ]
        panel.plot(seeds, [place] * len(seeds), "o", ms=3, color=INK)
        if setting in experiment.published:
            panel.plot(experiment.published[setting], place, "|", ms=14, mew=2.5, color=COLOURS[1])
    panel.plot([], [], "o", ms=3, color=INK, label="a seed")
    panel.plot([], [], "|", ms=10, mew=2.5, color=COLOURS[1], label=f"paper {experiment.paper}")
    panel.set_yticks(range(len(means)), list(means))
    panel.set_ylim(len(means) - 0.4, -0.6)
    panel.set_xlabel(metric.replace("_", " "))
    panel.set_title(f"{table.experiment}, {table.scale}", fontsize=10)
    panel.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return made
