"""`anyseq explain`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from anyseq.cli.drawn import check_drawn, draw
from anyseq.cli.terminal import say
from anyseq.errors import InvalidArgument

if TYPE_CHECKING:
    from anyseq.nn import StackShape

# What is slow to import is imported where it is used, so that --help is not.


def explain(
    folder: Path,
    /,
    *,
    input: str,
    picture: Path | None = None,
    animate: Path | None = None,
) -> None:
    """What each stage of a saved network does to one input: as text, as a picture, or animated,
    layer by layer.

    Parameters
    ----------
    folder
        What `anyseq approximate --out` wrote.
    input
        Numbers such as 0.1,0.7,0.3, the features of token 0 first.
    picture
        A file to draw the stages into, .png, .svg or .pdf.
    animate
        A file for the animation, .gif or .html.
    """
    check_drawn(picture, animate)
    from anyseq.construct import load

    result = load(folder)
    made = result.explain(numbers(input, result.size))
    say("\n".join([str(made), *draw(made, picture, animate)]))


def numbers(text: str, shape: StackShape) -> list[float]:
    """The entries of an input, of so many tokens and features."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    wanted = shape.tokens * shape.in_features
    if len(found) != wanted:
        raise InvalidArgument(
            f"--input {text}: expected {wanted} numbers with commas between them, "
            f"{shape.tokens} tokens x {shape.in_features}"
        )
    return found
