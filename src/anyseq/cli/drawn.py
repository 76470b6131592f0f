"""The files that commands draw into."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anyseq.errors import FileProblem, InvalidArgument

PICTURES = (".png", ".svg", ".pdf")
ANIMATIONS = (".gif", ".html")


def check_drawn(
    picture: Path | None = None, animate: Path | None = None, tokens: int | None = None
) -> None:
    """What would stop a picture or an animation, of so many tokens, is said before the work."""
    if animate is not None and tokens is not None:
        from anyseq.graph import ANIMATION_TOKENS

        if tokens > ANIMATION_TOKENS:
            raise InvalidArgument(
                f"--animate {animate}: {tokens:,} tokens are too many to draw; expected up to "
                f"{ANIMATION_TOKENS}: give a smaller --tokens, or leave --animate out"
            )
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
