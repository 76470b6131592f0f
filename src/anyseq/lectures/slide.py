"""What a lecture consists of."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import fill

from matplotlib.figure import Figure

COLUMNS = 80


@dataclass(frozen=True, eq=False)
class Slide:
    """parts: paragraphs, wrapped to 80 columns; one with a line break in it is shown as it is.
    pictures: figures by the name of their file, without its ending."""

    title: str
    parts: tuple[str, ...]
    pictures: tuple[tuple[str, Figure], ...] = ()

    def __str__(self) -> str:
        parts = [part if "\n" in part else fill(part, COLUMNS) for part in self.parts]
        return "\n\n".join([f"{self.title}\n{'=' * len(self.title)}", *parts])
