"""The layers of a design, side by side."""

from __future__ import annotations

import textwrap
from itertools import groupby
from math import ceil

from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from anyseq.design import Design, Layer, layer_text
from anyseq.errors import InvalidArgument
from anyseq.graph import PICTURE_TOKENS
from anyseq.pictures.style import COLOURS, INK, PALE, figure
from anyseq.positions import NoPosition
from anyseq.verdicts import describe_around

_COLUMNS, _MOST = 4, 16  # panels in a row, and altogether


def design_figure(design: Design) -> Figure:
    """A panel for each kind of layer, with its words: row i is coloured where token i gets content
    from token j, in blue by attention, in orange by another mixer."""
    if design.size > PICTURE_TOKENS:
        raise InvalidArgument(
            f"show: a design of {design.size:,} positions; expected up to {PICTURE_TOKENS:,}, such "
            "as the same design with fewer tokens"
        )
    cycle = design.layer_cycle
    kinds = list(dict.fromkeys(cycle))
    shown = kinds[:_MOST]
    rows = ceil(len(shown) / _COLUMNS)
    columns = ceil(len(shown) / rows)
    made, panels = figure(columns, rows=rows, width=3.4, height=4.2)
    made.set_layout_engine("compressed")  # for squares
    for panel, layer in zip(panels, shown, strict=False):
        _draw(panel, layer, design)
        turns = [turn for turn, one in enumerate(cycle, 1) if one == layer]
        panel.set_title(
            f"{_which(turns, design)}\n{_wrapped(_words(layer, design), 36)}", fontsize=9
        )
    for panel in panels[len(shown) :]:
        panel.set_visible(False)
    left_out = len(kinds) - len(shown)
    more = f"; {left_out} further kinds of layers are not shown" * (left_out > 0)
    made.suptitle(_wrapped(describe_around(design) + more, 44 * columns), fontsize=10)
    return made


def _words(layer: Layer, design: Design) -> str:
    """Where the input has positions, that attention has none of its own goes without saying."""
    text = layer_text(layer)
    told = design.input_position != NoPosition()
    return text.replace(", no positions", "") if told else text


def _draw(panel: Axes, layer: Layer, design: Design) -> None:
    colour = COLOURS[0 if layer.attends else 1]
    mask = layer.sees.mask(design.size).numpy()
    panel.imshow(mask, cmap=ListedColormap([PALE, colour]), vmin=0, vmax=1, interpolation="none")
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
    first = " (0 is BOS)" * design.bos
    panel.set_xlabel(f"{'looks at' if layer.attends else 'depends on'} token j{first}", color=INK)
    panel.set_ylabel("token i", color=INK)


def _which(turns: list[int], design: Design) -> str:
    """Such as "layers 1-3 of 4, in turn"."""
    period = len(design.layer_cycle)
    if period == 1:
        return "every layer"
    runs = [
        [turn for _, turn in run] for _, run in groupby(enumerate(turns), lambda p: p[1] - p[0])
    ]
    numbers = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    turn = "" if design.depth is not None and design.depth <= period else ", in turn"
    return f"layer{'s' * (len(turns) > 1)} {numbers} of {period}{turn}"


def _wrapped(text: str, width: int) -> str:
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
