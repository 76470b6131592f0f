"""The learning curves of an experiment: its metric against steps, beside the paper's number."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from anyseq.experiments import EXPERIMENTS, Table
from anyseq.pictures.experiment import UNITS, grouped, headline
from anyseq.pictures.style import BAND, COLOURS, INK, figure

_COLUMNS = 4
_DASHES = ("-", "--")  # in turn, so that a line shows where another lies on it
_FIRST = 3  # a curve is drawn if it has so many points


def curves_figure(table: Table) -> Figure | None:
    """A line for the mean over the seeds, a band from the lowest to the highest; settings that
    share a part of their name have a panel of their own. None: no run has a curve."""
    experiment = EXPERIMENTS[table.experiment]
    metric = experiment.metric.name
    curves = {
        setting: found
        for setting in table.settings
        if len(found := table.curve(setting, metric)) >= _FIRST
    }
    if not curves:
        return None
    groups = grouped(list(curves))
    columns = min(_COLUMNS, len(groups))
    rows = -(-len(groups) // columns)
    width = 7.2 if columns == 1 else 10.4 / columns
    made, panels = figure(
        columns, rows=rows, width=width, height=4.0 if rows == 1 else 2.5, share="y"
    )
    for panel, (name, members) in zip(panels, groups, strict=False):
        for number, bar in enumerate(members):
            found = curves[bar.setting]
            colour = COLOURS[number % len(COLOURS)]
            dashes = _DASHES[(number + number // len(COLOURS)) % len(_DASHES)]
            steps = [point.step for point in found]
            panel.plot(
                steps,
                [point.mean for point in found],
                dashes,
                color=colour,
                label=bar.label,
                lw=1.6,
            )
            panel.fill_between(
                steps,
                [point.lowest for point in found],
                [point.highest for point in found],
                color=colour,
                alpha=BAND,
                lw=0,
            )
            if bar.setting in experiment.published:
                _mark(panel, experiment.published[bar.setting], colour)
        panel.set_title(name, fontsize=9, fontweight="bold", color=INK)
    if metric == "perplexity":  # where a tenth less counts the same at any height
        panels[0].set_yscale("log")
        panels[0].yaxis.set_major_formatter("{x:.0f}")
        panels[0].yaxis.set_minor_formatter("{x:.0f}")
    for panel in panels[len(groups) :]:
        panel.set_visible(False)
    _label(panels, groups, columns, metric)
    made.suptitle(headline(table), fontsize=10, color=INK)
    return made


def _mark(panel: Axes, value: float, colour: str) -> None:
    """The paper's number, at the right edge."""
    panel.plot(
        [1.0], [value], "<", ms=7, color=colour, transform=panel.get_yaxis_transform(),
        clip_on=False,
    )  # fmt: skip


def _label(panels: Sequence[Axes], groups: Sequence[object], columns: int, metric: str) -> None:
    for place, panel in enumerate(panels[: len(groups)]):
        if place % columns == 0:
            panel.set_ylabel(UNITS.get(metric, metric.replace("_", " ")).split(",")[0])
        if place + columns >= len(groups):
            panel.set_xlabel("steps of training")
        if len(groups) == 1:  # beside the panel, where it hides no line
            panel.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.03, 0.5))
        else:
            panel.legend(fontsize=7, framealpha=0.85, edgecolor="none")
