"""`anyseq check`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from anyseq.base import one_of
from anyseq.cli.check_text import verdict_text
from anyseq.cli.question import imported
from anyseq.cli.terminal import say, say_json
from anyseq.design import Design
from anyseq.errors import FileProblem, InvalidArgument
from anyseq.patterns import Full, parse_pattern
from anyseq.positions import parse_position
from anyseq.verdicts import check as judge


def check(
    what: str | None = None,
    /,
    *,
    pattern: list[str] | None = None,
    position: str | None = None,
    tokens: int | None = None,
    depth: int | None = None,
    bos: bool = False,
    sinks: bool = False,
    prob_map: str = "softmax",
    norm: str = "sup",
    target: str = "all",
    require: str | None = None,
    picture: Path | None = None,
    json: bool = False,
) -> None:
    """Can this attention design express every function? A verdict with its proof, or a function it
    cannot express, and the cheapest repairs.

    Parameters
    ----------
    what
        A Hugging Face config.json, or your own mask_mod, mask, Design or module as
        package:name. Leave it out and describe a design with the options instead.
    pattern
        Who sees whom, such as "window(64)|global(0)"; several are taken by the layers in turn.
    position
        none, absolute (unless given), sinusoidal, rope, alibi, t5, relative, shaw, urpe,
        urpe(rope).
    tokens
        Tokens in a sequence.
    depth
        The number of layers; any, unless given.
    bos
        The model prepends a token of its own.
    sinks
        Heads have a learned sink.
    prob_map
        softmax, hardmax, sparsemax or entmax15.
    norm
        sup or lp.
    target
        all, causal or equivariant.
    require
        universal: exit with 1 unless the answer is yes.
    picture
        A file to draw the layers that each pair needs into, .png, .svg or .pdf.
    json
        Print JSON.
    """
    if require is not None:
        one_of("require", require, ("universal",))
    if picture is not None and picture.suffix not in (".png", ".svg", ".pdf"):
        raise FileProblem(f"--picture {picture}: expected a name ending in .png, .svg or .pdf")
    design_options = (pattern, position, depth) != (None, None, None) or bos or sinks
    if what is not None and (design_options or prob_map != "softmax"):
        raise InvalidArgument(
            f"{what}: --pattern, --position, --depth, --bos, --sinks and --prob-map describe a "
            "design of their own; leave them out, or the argument"
        )
    if what is not None:
        verdict = judge(_found(what), norm=norm, target=target, tokens=tokens)
    else:
        if tokens is None:
            raise InvalidArgument("give --tokens, the length of a sequence")
        design = Design(
            tokens,
            tuple(map(parse_pattern, pattern)) if pattern else Full(),
            parse_position(position or "absolute"),
            prob_map=prob_map,
            depth=depth,
            bos=bos,
            sinks=sinks,
        )
        verdict = judge(design, norm=norm, target=target)
    if json:
        say_json(verdict.to_dict())
    else:
        say(verdict_text(verdict))
    if picture is not None:
        if verdict.reach is None:
            raise InvalidArgument("--picture: nothing is known of who reaches whom")
        from anyseq.pictures import save, show

        save(show(verdict.reach), picture)
        if not json:
            say(f"drawn in {picture}")
    if require is not None and verdict.universal is not True:
        sys.exit(1)


def _found(what: str) -> Any:
    """A config file, or something of the caller's own."""
    if what.endswith(".json") or Path(what).is_file():
        return Path(what)
    if ":" in what:
        return imported("check", what)
    raise InvalidArgument(
        f"{what}: expected a config.json or package:name; a design is described by --pattern, "
        "--position, --tokens"
    )
