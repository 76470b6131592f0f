"""One look for all pictures. Figures are made without pyplot: no global state, no window."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from anyseq.errors import FileProblem

INK = "#1f2430"
TARGET = "#1f2430"
COLOURS = ("#2f6fdb", "#d9622b", "#2a9d6f", "#8c4fc4", "#b8922a", "#c23b6a")
PALE = "#f1f1f4"
BAND = 0.18  # opacity


class Picture(Figure):
    """A figure that a notebook displays by itself."""

    def _repr_png_(self) -> bytes:
        file = BytesIO()
        self.savefig(file, format="png", dpi=100)
        return file.getvalue()


def figure(
    columns: int, *, rows: int = 1, width: float = 4.2, height: float = 3.6, share: str = ""
) -> tuple[Figure, list[Axes]]:
    """Panels of that size, row by row. share: the axes that they have in common, "x", "y" or both,
    where they compare."""
    made = Picture(figsize=(width * columns, height * rows), layout="constrained")
    axes = made.subplots(
        rows, columns, squeeze=False, sharex="x" in share, sharey="y" in share
    ).flatten()
    for panel in axes:
        plain(panel)
    return made, list(axes)


def plain(panel: Axes) -> None:
    """Two spines, and numbers in ink."""
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    panel.tick_params(colors=INK, labelsize=9)


def whole_ticks(panel: Axes) -> None:
    """Numbers of tokens and layers are whole."""
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))


def distinct(count: int) -> ListedColormap:
    """So many different colours, in the order of the rainbow."""
    return ListedColormap(colormaps["turbo"](np.linspace(0.08, 0.95, max(count, 2))))


def save(picture: Figure, file: Path) -> None:
    """Write the picture; the ending of the name says in which format."""
    try:
        picture.savefig(file, dpi=150)
    except OSError as problem:
        raise FileProblem(f"picture {str(file)!r} cannot be written: {problem}") from problem
