"""The files that commands draw into."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anyseq.errors import FileProblem

PICTURES = (".png", ".svg", ".pdf")
ANIMATIONS = (".gif", ".html")


def check_drawn(picture: Path | None = None, animate: Path | None = None) -> None:
    """What would stop a picture or an animation is said before the work."""
    for option, file, endings in (
        ("--picture", picture, PICTURES),
        ("--animate", animate, ANIMATIONS),
    ):
        if file is None:
            continue
        if file.suffix not in endings:
            *first, last = endings
            raise FileProblem(
                f"{option} {file}: expected a name ending in {', '.join(first)} or {last}"
            )
        if not file.parent.is_dir():
            raise FileProblem(f"{option} {file}: {file.parent} is not a folder")


def draw(thing: Any, picture: Path | None = None, animate: Path | None = None) -> list[str]:
    """Write what was asked for; a line for each file."""
    if picture is None and animate is None:
        return []
    from anyseq import pictures

    if picture is not None:
        pictures.save(pictures.show(thing), picture)
    if animate is not None:
        pictures.animate(thing).save(animate)
    return [f"drawn in {file}" for file in (picture, animate) if file is not None]
