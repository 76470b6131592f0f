"""How many layers each pair of tokens needs."""

from __future__ import annotations

import textwrap

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import BoundaryNorm, Colormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from anyseq.base import layers_text
from anyseq.graph import Reach
from anyseq.pictures.style import INK, PALE, figure


def reach_figure(reach: Reach, title: str = "") -> Figure:
    """Row i, column j: the layers that token j needs to reach token i; pale is never."""
    layers = reach.layers_per_pair().astype(float)
    layers[layers < 0] = np.nan
    made, (panel,) = figure(1, width=4.8, height=4.2)
    most = max(1, int(np.nanmax(layers)))
    colours = _colours(most)
    image = panel.imshow(
        layers,
        interpolation="none",
        cmap=colours,
        norm=BoundaryNorm(np.arange(most + 2) - 0.5, colours.N),
    )
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    panel.set_xlabel("source token j")
    panel.set_ylabel("token i")
    bar = made.colorbar(image, ax=panel, shrink=0.8)
    bar.set_label("layers that token j needs to reach token i")
    bar.ax.yaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    bar.ax.minorticks_off()
    if np.isnan(layers).any():
        never = Patch(facecolor=PALE, edgecolor=INK, linewidth=0.5, label="never")
        made.legend(handles=[never], loc="outside lower right", fontsize=9, frameon=False)
    wanted = "all pairs" if reach.target == "all" else "all pairs j ≤ i"
    if reach.layers is None:
        says = "some tokens never reach some others"
    else:
        says = f"{wanted} meet within {layers_text(reach.layers)}"
    panel.set_title(says, fontsize=10)
    if title:
        made.suptitle(textwrap.fill(title, 52), fontsize=11, color=INK)
    return made


def _colours(most: int) -> Colormap:
    return colormaps["viridis_r"].resampled(most + 1).with_extremes(bad=PALE)
