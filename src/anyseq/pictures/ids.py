"""Ids of tokens as a table, so that different ids look different."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from anyseq.construct.explaining.explanation import numbers_text
from anyseq.pictures.style import INK, PALE, distinct

_DIGITS = 9  # of numbers in the usual size of letters


class Column(NamedTuple):
    """Numbers (tokens,) under a head, NaN for none; ids are coloured, equal ones alike."""

    head: str
    numbers: torch.Tensor
    ids: bool = True


def draw_table(panel: Axes, columns: Sequence[Column], known: torch.Tensor) -> None:
    """Row: a token. known: all ids, in ascending order."""
    tokens = len(columns[0].numbers)
    colours = distinct(len(known))
    for at, column in enumerate(columns):
        for token, value in enumerate(column.numbers.tolist()):
            face = colours(int((known < value).sum())) if column.ids else PALE
            number = column.numbers[token : token + 1]
            text = "" if bool(number.isnan()) else numbers_text(number, exact=column.ids)
            panel.add_patch(Rectangle((at - 0.47, token - 0.44), 0.94, 0.88, facecolor=face))
            panel.text(
                at, token, text, ha="center", va="center",
                fontsize=9 if len(text) <= _DIGITS else 6.5,
                color=ink_on(face) if column.ids else INK,
            )  # fmt: skip
    panel.set_xlim(-0.5, len(columns) - 0.5)
    panel.set_ylim(tokens - 0.5, -0.5)
    panel.set_xticks(range(len(columns)), [one.head for one in columns], fontsize=8)
    panel.set_yticks(range(tokens), [str(token) for token in range(tokens)])
    panel.tick_params(length=0)
    panel.set_ylabel("token")
    for side in ("left", "bottom"):
        panel.spines[side].set_visible(False)


def ink_on(face: Sequence[float] | str) -> str:
    """White or ink, whatever is legible on a colour."""
    if isinstance(face, str):
        return INK
    red, green, blue = face[:3]
    return "white" if 0.3 * red + 0.59 * green + 0.11 * blue < 0.6 else INK
