"""Which equal tokens a design can tell apart."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from anyseq.design import Design
from anyseq.errors import InvalidArgument
from anyseq.graph import PICTURE_TOKENS, classes_by_layer
from anyseq.pictures.style import INK, distinct, figure, whole_ticks

_NAMED = 32  # classes that have their letter drawn
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef"


def positions_figure(design: Design, title: str = "") -> Figure:
    """On a sequence of equal tokens: row t, column i is the class of token i after t layers. Tokens
    of one colour are equal there in every network of the design."""
    classes = equal_tokens(design)
    made, (panel,) = figure(1, width=6.2, height=1.9 + 0.34 * min(len(classes), 12))
    draw_classes(panel, classes)
    kinds = len(np.unique(classes[-1]))
    says = classes_text(kinds, design.tokens)
    panel.set_xlabel(f"token i of {design.tokens:,} equal ones")
    panel.set_ylabel("after layer")
    panel.set_title(f"On equal tokens: {says}", fontsize=10, color=INK)
    if title:
        made.suptitle(textwrap.fill(title, 70), fontsize=11, color=INK)
    made.supxlabel(
        "tokens of one colour and letter have equal outputs in every network", fontsize=8.5
    )
    return made


def equal_tokens(design: Design) -> list[np.ndarray]:
    """(tokens,) the classes after 0, 1, ... layers, by the first token of each; at least one layer
    is shown."""
    if design.tokens > PICTURE_TOKENS:
        raise InvalidArgument(
            f"show: {design.tokens:,} tokens; expected up to {PICTURE_TOKENS:,}, such as the same "
            "design with fewer tokens"
        )
    found = classes_by_layer(design)
    return [_by_first(classes) for classes in (found if len(found) > 1 else found * 2)]


def _by_first(classes: np.ndarray) -> np.ndarray:
    """The same classes, each with the number of its first token."""
    first, inverse = np.unique(classes, return_index=True, return_inverse=True)[1:]
    numbers: np.ndarray = first[inverse.ravel()]
    return numbers


def draw_classes(panel: Axes, classes: Sequence[np.ndarray], most: int | None = None) -> None:
    """A row of tokens for each layer, a colour for each class; most: rows that there is room for.

    A class is drawn in the colour of its first token, so that colours stay while classes split.
    """
    tokens, rows = len(classes[0]), np.stack(classes)
    panel.clear()
    panel.imshow(
        rows, cmap=distinct(tokens), vmin=0, vmax=max(tokens - 1, 1), aspect="auto",
        interpolation="none",
    )  # fmt: skip
    for line in range(1, len(rows)):
        panel.axhline(line - 0.5, color="white", lw=3)
    if tokens <= _NAMED:
        for line in range(1, tokens):
            panel.axvline(line - 0.5, color="white", lw=1.5)
        for row, numbers in enumerate(rows):
            for token, number in enumerate(numbers):
                panel.text(
                    token, row, _LETTERS[number], ha="center", va="center", fontsize=8,
                    color="white", fontweight="bold",
                )  # fmt: skip
    whole_ticks(panel)
    panel.set_ylim((most or len(rows)) - 0.5, -0.5)


def classes_text(kinds: int, tokens: int) -> str:
    """How many outputs differ, in words."""
    if kinds == tokens:
        return "all become different"
    return "all stay equal" if kinds == 1 else f"only {kinds:,} different outputs"
