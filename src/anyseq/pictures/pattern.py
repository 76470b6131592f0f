"""Which tokens each token attends to."""

from __future__ import annotations

import textwrap

from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from anyseq.patterns import Pattern, PerHead, pattern_text
from anyseq.pictures.style import COLOURS, INK, PALE, figure, whole_ticks

_COLUMNS = 4


def pattern_figure(pattern: Pattern, tokens: int | None = None) -> Figure:
    """The mask of a pattern: row i is coloured where i attends to j; a panel for each head, where
    heads differ. 32 tokens unless given, or the only number that the pattern fits."""
    tokens = tokens or pattern.natural_length or 32
    heads = pattern.heads() if isinstance(pattern, PerHead) else (pattern,)
    columns = min(len(heads), _COLUMNS)
    made, panels = figure(columns, rows=-(-len(heads) // columns), width=3.8, height=4.1)
    for panel in panels[len(heads) :]:
        panel.set_visible(False)
    for number, (head, panel) in enumerate(zip(heads, panels, strict=False)):
        draw_mask(panel, head, tokens)
        which = f"head {number}: " * (len(heads) > 1)
        panel.set_title(_wrapped(f"{which}{pattern_text(head)}"), fontsize=10, color=INK)
        panel.set_xlabel(f"attends to token j   ({pattern_masked(head, tokens)})")
        panel.set_ylabel("token i")
    return made


def draw_mask(panel: Axes, pattern: Pattern, size: int, colour: str = COLOURS[0]) -> None:
    """Row i is coloured where i attends to j."""
    colours = ListedColormap([PALE, colour])
    panel.imshow(pattern.mask(size).numpy(), cmap=colours, vmin=0, vmax=1, interpolation="none")
    whole_ticks(panel)


def pattern_masked(pattern: Pattern, tokens: int) -> str:
    return f"{100 * pattern.sparsity(tokens):.0f} % masked"


def _wrapped(text: str) -> str:
    return textwrap.fill(text.replace("(", "( "), 40, break_long_words=False).replace("( ", "(")
