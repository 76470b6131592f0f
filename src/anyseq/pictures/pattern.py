"""Who looks at whom."""

from __future__ import annotations

import textwrap

from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from anyseq.patterns import Pattern
from anyseq.pictures.style import COLOURS, PALE, figure


def pattern_figure(pattern: Pattern, tokens: int | None = None) -> Figure:
    """The mask of a pattern: row i is coloured where i looks at j. 32 tokens unless given, or the
    only number that the pattern fits."""
    tokens = tokens or pattern.natural_length or 32
    made, (panel,) = figure(1)
    colours = ListedColormap([PALE, COLOURS[0]])
    panel.imshow(pattern.mask(tokens).numpy(), cmap=colours, vmin=0, vmax=1)
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    panel.set_xlabel("looks at token j")
    panel.set_ylabel("token i")
    text = f"{pattern}, {pattern.sparsity(tokens):.0%} zeros"
    title = textwrap.fill(text.replace("(", "( "), 44, break_long_words=False).replace("( ", "(")
    panel.set_title(title, fontsize=9)
    return made
