"""`anyseq show`."""

from __future__ import annotations

from pathlib import Path

from anyseq.cli.terminal import say
from anyseq.construct import load
from anyseq.errors import FileProblem


def show(folder: Path, /, *, picture: Path | None = None) -> None:
    """Describe a saved network, and draw it if asked.

    Parameters
    ----------
    folder
        What `anyseq approximate --out` wrote.
    picture
        A file to draw it into, .png, .svg or .pdf.
    """
    if picture is not None and picture.suffix not in (".png", ".svg", ".pdf"):
        raise FileProblem(f"--picture {picture}: expected a name ending in .png, .svg or .pdf")
    if picture is not None and not picture.parent.is_dir():
        raise FileProblem(f"--picture {picture}: {picture.parent} is not a folder")
    result = load(folder)
    say(repr(result))
    if picture is not None:
        from anyseq.pictures import save
        from anyseq.pictures import show as draw

        save(draw(result), picture)
        say(f"drawn in {picture}")
