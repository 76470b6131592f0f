"""`anyseq compare`."""

from __future__ import annotations

import re
from os.path import exists
from pathlib import Path
from typing import Any

from anyseq.cli.drawn import check_drawn, draw
from anyseq.cli.question import imported_or_made
from anyseq.cli.terminal import say, say_json
from anyseq.errors import InvalidArgument

# What is slow to import is imported where it is used, so that --help is not.


def compare(
    *what: str,
    tokens: int | None = None,
    norm: str = "sup",
    target: str | None = None,
    seconds: float = 30.0,
    picture: Path | None = None,
    animate: Path | None = None,
    json: bool = False,
) -> None:
    """Designs and models side by side: what they can express, when all tokens have met, how weak
    the routes are, what a token costs, where positions come from.

    Parameters
    ----------
    what
        Each a Hugging Face config.json or its folder, your own Design, mask_mod, mask or module as
        package:name, or a design in words: its layers, with "then" between those that
        alternate, and after commas what holds for all of it, such as "causal, rope" or
        "3 x causal & window(64) then causal, rope, bos, depth 12". A layer with words of its own,
        as --layer takes them, stands in brackets: "(causal, rope, sinks) then (recurrence)".
    tokens
        Tokens in a sequence.
    norm
        sup: the largest error over all inputs; lp: the error averaged over all inputs.
    target
        all, causal or equivariant; that of check, unless given.
    seconds
        The time for each verdict, and as much again for the rest of its column.
    picture
        A file to draw the comparison into, .png, .svg or .pdf.
    animate
        A file for an animation, .gif or .html: which tokens each token reaches, and which equal
        tokens differ, layer by layer.
    json
        Print JSON.
    """
    if not what:
        raise InvalidArgument(
            'nothing to compare: give designs such as "causal, rope" "causal & window(64), rope", '
            "config.json files, or your own as package:name"
        )
    check_drawn(picture, animate, tokens)
    from anyseq.verdicts import NoLength
    from anyseq.verdicts import compare as side_by_side

    try:
        found = side_by_side(
            *map(_found, what), tokens=tokens, norm=norm, target=target, seconds=seconds
        )
    except NoLength:
        raise InvalidArgument("--tokens is missing: say how many tokens a sequence has") from None
    if json:
        say_json(found.to_dict())
    else:
        say(str(found))
    lines = draw(found, picture, animate)
    if lines and not json:
        say("\n".join(["", *lines]))


def _found(what: str) -> Any:
    """The caller's own thing by its name; else the words or the path as they are."""
    if re.fullmatch(r"[^\W\d][\w.]*:[^\W\d]\w*", what) and not exists(what):
        return imported_or_made("compare", what)
    return what
