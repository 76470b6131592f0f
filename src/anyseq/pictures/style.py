"""One look for all pictures. Figures are made without pyplot: no global state, no window."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from anyseq.errors import FileProblem

INK = "#1f2430"
TARGET = "#1f2430"
COLOURS = ("#2f6fdb", "#d9622b", "#2a9d6f", "#8c4fc4", "#b8922a", "#c23b6a")
PALE = "#f1f1f4"
BAND = 0.18  # opacity


def figure(
    columns: int, *, rows: int = 1, width: float = 4.2, height: float = 3.6
) -> tuple[Figure, list[Axes]]:
    """Panels of that size, row by row."""
    made = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = made.subplots(rows, columns, squeeze=False).flatten()
    for panel in axes:
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
        panel.tick_params(colors=INK, labelsize=9)
    return made, list(axes)


def save(picture: Figure, file: Path) -> None:
    """Write the picture; the ending of the name says in which format."""
    try:
        picture.savefig(file, dpi=150)
    except OSError as problem:
        raise FileProblem(f"picture {str(file)!r} cannot be written: {problem}") from problem
