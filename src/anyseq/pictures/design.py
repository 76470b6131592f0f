"""The layers of a design, side by side."""

from __future__ import annotations

import textwrap
from itertools import groupby
from math import ceil

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from anyseq.design import Design, Layer, layer_text
from anyseq.errors import InvalidArgument
from anyseq.graph import PICTURE_TOKENS
from anyseq.patterns import Pattern, PerHead, pattern_text
from anyseq.pictures.pattern import draw_mask
from anyseq.pictures.style import COLOURS, INK, figure
from anyseq.positions import NoPosition
from anyseq.verdicts import describe_around

_COLUMNS, _MOST = 4, 16  # panels in a row, and altogether


def design_figure(design: Design) -> Figure:
    """A panel for each kind of layer, with its words, and for each head where heads differ: row i
    is coloured where token i attends to token j, in blue, or depends on it by another mixer, in
    orange."""
    if design.size > PICTURE_TOKENS:
        raise InvalidArgument(
            f"show: a design of {design.size:,} positions; expected up to {PICTURE_TOKENS:,}, such "
            "as the same design with fewer tokens"
        )
    cycle = design.layer_cycle
    kinds = [part for layer in dict.fromkeys(cycle) for part in _heads(layer)]
    shown = kinds[:_MOST]
    rows = ceil(len(shown) / _COLUMNS)
    columns = ceil(len(shown) / rows)
    made, panels = figure(columns, rows=rows, width=3.4, height=4.2)
    made.set_layout_engine("compressed")  # for squares
    for panel, (layer, head, pattern) in zip(panels, shown, strict=False):
        _draw(panel, layer, pattern, design)
        turns = [turn for turn, one in enumerate(cycle, 1) if one == layer]
        words = _words(layer, design) if head is None else pattern_text(pattern)
        which = f"{_which(turns, design)}{'' if head is None else f', head {head}'}"
        panel.set_title(f"{which}\n{_wrapped(words, 36)}", fontsize=9)
    for panel in panels[len(shown) :]:
        panel.set_visible(False)
    left_out = len(kinds) - len(shown)
    more = f"; {left_out} further panels are not shown" * (left_out > 0)
    made.suptitle(_wrapped(describe_around(design) + more, 44 * columns), fontsize=10)
    return made


def _words(layer: Layer, design: Design) -> str:
    """Where the input has positions, that attention has none of its own goes without saying."""
    text = layer_text(layer)
    told = design.input_position != NoPosition()
    return text.replace(", no positions", "") if told else text


def _heads(layer: Layer) -> list[tuple[Layer, int | None, Pattern]]:
    """The layer, the number of a head (None where all are alike), and what the head attends to."""
    if not isinstance(layer.sees, PerHead):
        return [(layer, None, layer.sees)]
    return [(layer, head, pattern) for head, pattern in enumerate(layer.sees.heads())]


def _draw(panel: Axes, layer: Layer, pattern: Pattern, design: Design) -> None:
    draw_mask(panel, pattern, design.size, COLOURS[0 if layer.attends else 1])
    what = "attends to" if layer.attends else "depends on"
    first = " (0 is BOS)" * design.bos
    panel.set_xlabel(f"{what} token j{first}", color=INK)
    panel.set_ylabel("token i", color=INK)


def _which(turns: list[int], design: Design) -> str:
    """Such as "layers 1-3 of every 4"."""
    period = len(design.layer_cycle)
    if period == 1:
        return "every layer"
    runs = [
        [turn for _, turn in run] for _, run in groupby(enumerate(turns), lambda p: p[1] - p[0])
    ]
    numbers = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    every = "" if design.depth is not None and design.depth <= period else "every "
    return f"layer{'s' * (len(turns) > 1)} {numbers} of {every}{period}"


def _wrapped(text: str, width: int) -> str:
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
