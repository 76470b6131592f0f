"""Target and approximation along a line through the domain."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure

from anyseq.construct import Approximation
from anyseq.construct.request.error import SUP
from anyseq.construct.request.target import Function
from anyseq.pictures.style import BAND, COLOURS, TARGET, figure

_POINTS = 801
_MOST_PANELS = 4


def slice_figure(result: Approximation, *, f: Function | None = None) -> Figure:
    """T as the first entry runs over [0, 1], the others fixed at the worst input seen.

    One panel per token (the first four), output feature 0. In sup norm the band T ± upper is
    proved to hold the target, whether or not it is drawn.
    """
    upper = result.error.upper if result.error.norm == SUP else None
    tokens = min(result.size.tokens, _MOST_PANELS)
    line = torch.linspace(0, 1, _POINTS, dtype=torch.float64)
    x = result.error.at.expand(_POINTS, -1, -1).clone()
    x[:, 0, 0] = line
    # points that the look-up does not cover lie on ramps: leave gaps rather than run the blocks
    covered = result.fused.covers(x)
    line, x = line[covered], x[covered]
    values = result(x)[:, :, 0]
    wanted = None if f is None else f(x)[:, :, 0]
    entry = "token 0" if result.size.in_features == 1 else "feature 0 of token 0"
    made, panels = figure(tokens, width=max(3.2, 8.4 / tokens), share="y")
    for token, panel in enumerate(panels):
        colour = COLOURS[token % len(COLOURS)]
        y = values[:, token]
        if upper is not None:
            panel.fill_between(
                line, y - upper, y + upper, color=colour, alpha=BAND, lw=0,
                label=f"proven band, T ± {upper:.3g}",
            )  # fmt: skip
        panel.plot(line, y, color=colour, lw=1.6, label="network T")
        if wanted is not None:
            panel.plot(line, wanted[:, token], color=TARGET, lw=1.0, ls="--", label="target f")
        panel.set_xlabel(f"{entry} of the input")
        panel.set_title(f"output of token {token}", fontsize=10)
        panel.legend(fontsize=8, frameon=False)
    made.suptitle(
        f"The network T along a line through its worst input\n{result.size.layers:,} layers by "
        f'method "{result.method}", tolerance {result.facts.tol:g}; all but {entry} is fixed',
        fontsize=11,
    )
    return made
