"""`anyseq check`."""

from __future__ import annotations

import re
import sys
from os.path import exists
from pathlib import Path
from typing import Any

from anyseq.cli.design import DENSE, Options
from anyseq.cli.drawn import check_drawn, draw
from anyseq.cli.terminal import say, say_json
from anyseq.errors import InvalidArgument

# What is slow to import is imported where it is used, so that --help is not.

_NO_TOKENS = "--tokens is missing: say how many tokens a sequence has"
_REQUIRED = ("universal", "reach")


def check(
    what: str | None = None,
    /,
    *,
    design: Options = DENSE,
    tokens: int | None = None,
    feedforward: bool = True,
    final_norm: str | None = None,
    block_norm: str | None = None,
    head: bool = False,
    domain: str = "cube",
    readout: str = "all",
    norm: str = "sup",
    target: str | None = None,
    seconds: float = 30.0,
    require: str | None = None,
    picture: Path | None = None,
    json: bool = False,
) -> None:
    """Can this attention design express every function? What it can and cannot do, why, and the
    cheapest repairs.

    Parameters
    ----------
    what
        A Hugging Face config.json or its folder, or your own mask_mod, mask, Design or module as
        package:name. Leave it out and describe a design with the options instead; of these --bos
        and --no-bos go with a config or a module, too.
    tokens
        Tokens in a sequence; of a config, as many as the model was made for, unless given.
    feedforward
        Whether blocks have a feed-forward layer.
    final_norm
        layernorm or rmsnorm, without parameters, after the last layer, or with a learned scale
        learned-layernorm or learned-rmsnorm; none, unless given.
    block_norm
        pre, post or sandwich: the norms in a block; none, unless given.
    head
        A linear map follows at the end.
    domain
        cube: a token is a point of it; ids: a token is an id of a vocabulary.
    readout
        all, last, or a position from 0 on: the outputs that count.
    norm
        sup: the largest error over all inputs; lp: the error averaged over all inputs, which are
        vectors from a cube; for token ids, sup.
    target
        all, causal or equivariant; unless given, causal for a causal model, otherwise all.
    seconds
        The time for the answer, and as much again for repairs and the rest; what is not found by
        then is unknown.
    require
        universal: exit with 1 unless the answer is yes. reach: exit with 1 unless every token
        reaches every token, of causal functions every later one, within the depth.
    picture
        A file to draw the reason into, .png, .svg or .pdf: the layers that each pair of tokens
        needs, or which equal tokens stay equal. For up to 2,048 tokens.
    json
        Print JSON.
    """
    from anyseq.base import one_of
    from anyseq.verdicts import NoLength
    from anyseq.verdicts import check as judge

    if require is not None:
        one_of("require", require, _REQUIRED)
    described = [one for one in design.given() if what is None or one != "--bos"]
    described += ["--no-feedforward"] * (not feedforward) + ["--head"] * head
    described += ["--final-norm"] * (final_norm is not None)
    described += ["--block-norm"] * (block_norm is not None)
    described += ["--domain"] * (domain != "cube") + ["--readout"] * (readout != "all")
    if what is not None and described:
        raise InvalidArgument(
            f"{what}: {', '.join(described)} would describe a design of its own; leave out either"
        )
    if what is not None:
        subject = _found(what)
    elif tokens is None:
        raise InvalidArgument(_NO_TOKENS)
    else:
        subject = design.at(
            tokens,
            feedforward=feedforward,
            final_norm=final_norm,
            block_norm=block_norm,
            head=head,
            domain=domain,
            readout=int(readout) if re.fullmatch("[0-9]{1,18}", readout) else readout,
        )
    if picture is not None:
        _check_picture(picture, subject, tokens)
    bos = None if what is None else design.bos  # a design has it already
    try:
        verdict = judge(subject, norm=norm, target=target, tokens=tokens, bos=bos, seconds=seconds)
    except NoLength:
        raise InvalidArgument(f"{what}: {_NO_TOKENS}") from None
    if picture is not None:
        _check_size(picture, None if verdict.design is None else verdict.design.tokens)
    if json:
        say_json(verdict.to_dict())
    else:
        say(str(verdict))
    if picture is not None:
        lines = draw(verdict, picture)
        if not json:
            say("\n".join(lines))
    holds = {None: True, "universal": verdict.universal is True, "reach": verdict.meets}
    if not holds[require]:
        if not json:
            hint = " without a BOS token; --bos asks with one" * verdict.open_bos
            say(f"not met: --require {require}{hint}")
        sys.exit(1)


def _found(what: str) -> Any:
    """A config file or its folder, or something of the caller's own."""
    if what.endswith(".json") or exists(what):
        return Path(what)
    if ":" in what:
        from anyseq.cli.question import imported_or_made

        return imported_or_made("check", what)
    raise InvalidArgument(
        f"{what}: expected a config.json or package:name; a design is described by --pattern, "
        "--position, --layer, --tokens"
    )


def _check_picture(picture: Path, subject: Any, tokens: int | None) -> None:
    """What would stop the picture is said before the work."""
    check_drawn(picture)
    _check_size(picture, tokens or _own_length(subject))


def _check_size(picture: Path, length: int | None) -> None:
    from anyseq.graph import PICTURE_TOKENS

    if length is not None and length > PICTURE_TOKENS:
        raise InvalidArgument(
            f"--picture {picture}: {length:,} tokens are too many to draw; expected up to "
            f"{PICTURE_TOKENS:,}: give a smaller --tokens, or leave --picture out"
        )


def _own_length(subject: Any) -> int | None:
    """The number of tokens that a design or a mask is for."""
    import torch

    from anyseq.design import Design
    from anyseq.patterns import Pattern

    if isinstance(subject, Design):
        return subject.tokens
    if isinstance(subject, Pattern):
        return subject.natural_length
    if isinstance(subject, torch.Tensor) or hasattr(subject, "mask_mod"):
        return max(subject.shape, default=None)
    return None
