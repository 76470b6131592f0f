"""Designs side by side: the layers that each pair of tokens needs, and what a token costs."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from math import ceil

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Patch
from matplotlib.ticker import NullLocator

from anyseq.base import layers_text
from anyseq.errors import InvalidArgument
from anyseq.graph import arrivals
from anyseq.pictures.style import COLOURS, INK, Picture
from anyseq.verdicts import Card, Comparison
from anyseq.verdicts.compare_text import comparison_head
from anyseq.verdicts.text import ANSWERS

_COLUMNS = 4  # panels in a row
_LINES = 256  # at most so many rows and columns of tokens are drawn
_SCALE = colormaps["viridis_r"]
_DILUTED = "diluted pairs: weaker than in one dense layer"
_BEYOND, _NEVER, _UNASKED = "#f2c6ae", "#d5d7de", "white"


def comparison_figure(comparison: Comparison) -> Figure:
    """Above, a panel for each subject: row i, column j, the layers that token j needs to reach
    token i, all in one scale. Below, what a token costs, and how many pairs are diluted."""
    cards = [card for card in comparison.cards if card.design is not None]
    if not cards:
        raise InvalidArgument(
            "show: no design describes any of these, so that it is not known which tokens each "
            "token reaches; expected one or more that `read` can describe"
        )
    rows = ceil(len(cards) / _COLUMNS)
    columns = ceil(len(cards) / rows)
    heights = [3.9 * rows + 0.4, 1.1 + 0.26 * len(cards)]
    made = Picture(figsize=(3.3 * max(columns, 2) + 0.9, sum(heights)), layout="constrained")
    top, bottom = made.subfigures(2, 1, squeeze=False, height_ratios=heights, hspace=0.04).flatten()
    top.suptitle(comparison_head(cards), fontsize=11, color=INK)
    _panels(top, cards, rows, columns)
    _bars(bottom, cards)
    return made


def _panels(part: SubFigure, cards: Sequence[Card], rows: int, columns: int) -> None:
    panels = part.subplots(rows, columns, squeeze=False).flatten()
    layers = [_layers(card) for card in cards]
    most = max(2, *(int(found.max()) for found in layers))
    scale = LogNorm(1, most)
    kinds = set()
    for panel, card, found in zip(panels, cards, layers, strict=False):
        kinds |= _draw(panel, card, found, scale)
    for panel in panels[len(cards) :]:
        panel.set_visible(False)
    for panel in panels[::columns]:
        panel.set_ylabel("token i", color=INK)
    bar = part.colorbar(
        ScalarMappable(scale, _SCALE), ax=panels.tolist(), shrink=0.75, aspect=25, pad=0.015
    )
    bar.set_label("layers that token j needs to reach token i", color=INK)
    bar.ax.yaxis.set_minor_locator(NullLocator())
    ticks = _ticks(most)
    bar.set_ticks(ticks, labels=[f"{tick:,}" for tick in ticks])
    shown = [
        Patch(facecolor=colour, edgecolor=INK, linewidth=0.4, label=label)
        for colour, label in ((_BEYOND, "more layers than it has"), (_NEVER, "never"))
        if colour in kinds
    ]
    if shown:
        part.legend(handles=shown, loc="outside lower right", ncols=2, fontsize=9, frameon=False)


def _ticks(most: int) -> list[int]:
    """Numbers of layers that are written at the scale."""
    if most <= 8:
        return list(range(1, most + 1))
    return [*(2**power for power in range(20) if 2**power < most / 1.4), most]


def _layers(card: Card) -> np.ndarray:
    """(rows, columns): the layers that each pair needs, of evenly spread tokens."""
    assert card.design is not None
    tokens = card.design.tokens
    lines = np.unique(np.linspace(0, tokens - 1, min(tokens, _LINES)).astype(np.int64))
    found = arrivals(card.design, lines)[lines].astype(np.float64)
    if card.target == "causal":
        found[lines[:, None] < lines] = 0  # not asked
    return found


def _draw(panel: Axes, card: Card, layers: np.ndarray, scale: LogNorm) -> set[str]:
    """The layers of each pair; the colours of those that have none in the scale."""
    assert card.design is not None
    tokens, depth = card.design.tokens, card.depth
    image = _SCALE(scale(np.maximum(layers, 1)))
    kinds = {_NEVER: layers < 0}
    if depth is not None:
        kinds[_BEYOND] = layers > depth
    if card.target == "causal":
        place = np.arange(len(layers))
        kinds[_UNASKED] = place[:, None] < place
    for colour, where in kinds.items():
        image[where] = ListedColormap([colour])(0)
    panel.imshow(image, extent=(0, tokens, tokens, 0), interpolation="none")
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    panel.tick_params(colors=INK, labelsize=8)
    ticks = sorted({0, tokens // 2, tokens - 1})
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_ticks([tick + 0.5 for tick in ticks], labels=[f"{tick:,}" for tick in ticks])
    panel.set_xlabel("source token j", color=INK)
    words = textwrap.fill(f"{card.name}   {card.subject.removeprefix(f'{tokens:,} tokens, ')}", 36)
    panel.set_title(f"{words}\n{_headline(card)}", fontsize=9.5, color=INK, loc="left")
    return {colour for colour, where in kinds.items() if where.any()}


def _headline(card: Card) -> str:
    answer = ANSWERS[card.universal]
    if "reach" in card.missing:
        return f"{answer}; {card.missing['reach']}"
    if card.layers is None:
        return f"{answer}; some pairs never meet"
    have = f", has {card.depth}" if card.depth is not None and card.layers > card.depth else ""
    return f"{answer}; all pairs meet in {layers_text(card.layers)}{have}"


def _bars(part: SubFigure, cards: Sequence[Card]) -> None:
    """What is a number for each subject."""
    costs = [card.costs for card in cards]
    weaker = [None if card.dilution is None else card.dilution.weaker for card in cards]
    every: list[tuple[str, list[float | None]]] = [
        ("keys a token attends to, a layer", [None if one is None else one.keys for one in costs]),
        ("keys kept in a cache, a layer", [None if one is None else one.kept for one in costs]),
        (_DILUTED, weaker),
    ]
    kinds = [kind for kind in every if any(value is not None for value in kind[1])]
    if not kinds:
        return
    panels = part.subplots(1, len(kinds), squeeze=False).flatten()
    for panel, (title, values), colour in zip(panels, kinds, COLOURS, strict=False):
        share = title == _DILUTED
        missing = "not known" if share else "none"
        most = 1.0 if share else max(value or 0 for value in values)
        for place, value in enumerate(values):
            panel.barh(place, value or 0, color=colour, height=0.62)
            says = (
                missing if value is None else f"{100 * value:.0f} %" if share else f"{value:,.0f}"
            )
            panel.text(
                (value or 0) + most * 0.02, place, says, va="center", fontsize=8.5, color=INK
            )
        panel.set_xlim(0, most * 1.2)
        panel.set_yticks(range(len(cards)), [card.name for card in cards], fontweight="bold")
        panel.invert_yaxis()
        panel.set_xticks([])
        panel.tick_params(axis="y", length=0, colors=INK, labelsize=9)
        for side in ("top", "right", "bottom"):
            panel.spines[side].set_visible(False)
        panel.set_title(title, fontsize=9, color=INK, loc="left")
