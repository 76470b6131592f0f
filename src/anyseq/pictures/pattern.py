"""Who looks at whom."""

from __future__ import annotations

import textwrap

from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from anyseq.patterns import Pattern
from anyseq.pictures.style import COLOURS, figure


def pattern_figure(pattern: Pattern, *, tokens: int = 16) -> Figure:
    """The mask of a pattern for `tokens` tokens: row i is coloured where i looks at j."""
    made, (panel,) = figure(1)
    panel.imshow(pattern.mask(tokens).numpy(), cmap=ListedColormap(["#f1f1f4", COLOURS[0]]))
    panel.set_xlabel("looks at token j")
    panel.set_ylabel("token i")
    title = textwrap.fill(f"{pattern}, {pattern.sparsity(tokens):.0%} zeros", 44)
    panel.set_title(title, fontsize=9)
    return made
