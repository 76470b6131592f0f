"""`anyseq audit`."""

from __future__ import annotations

import re
import sys
from os.path import exists
from typing import TYPE_CHECKING, Any

from anyseq.cli.terminal import progress_bar, say, say_json
from anyseq.errors import InvalidArgument

if TYPE_CHECKING:
    from anyseq.models import Audit

# What is slow to import is imported where it is used, so that --help is not.


def audit(
    model: str,
    /,
    *,
    declared: str | None = None,
    tokens: int | None = None,
    layers: tuple[int, ...] | None = None,
    seconds: float = 60.0,
    json: bool = False,
) -> None:
    """Does a model attend as it declares? Leaks, lost windows, padding, caches, each with the pair
    of tokens that shows it. Exit with 1 if there is a fault.

    Parameters
    ----------
    model
        package:name of a model, or of a function without arguments that makes one; or a Hugging
        Face config.json or its folder, for transformers' own model of it.
    declared
        What it says it attends to: a config.json or its folder, a pattern such as
        "causal & window(64)", or a config, Design, pattern or mask_mod of your own as package:name.
        Unless given, the model's own config or design.
    tokens
        How many it is run on; unless given, 30, or as many as go past its windows, up to 256.
    layers
        Compare only these layers of the model itself, counted from 1.
    seconds
        What running the model itself may cost, about; of a larger one a small copy is built from
        its config.
    json
        Print JSON.
    """
    from anyseq.models import audit as examine

    subject = _model(model)
    given = None if declared is None else _declared(declared)
    with progress_bar() as progress:
        found: Audit = examine(
            subject, given, tokens=tokens, layers=layers, seconds=seconds, progress=progress
        )
    if json:
        say_json(found.to_dict())
    else:
        say(str(found))
    if not found.passed:
        sys.exit(1)


def _model(name: str) -> Any:
    """A config, or a model of the caller's own, made if need be."""
    if _is_file(name):
        return name
    if not _is_import(name):
        raise InvalidArgument(
            f"audit {name}: expected package:name of a model or of a function that makes one, or a "
            "config.json or its folder"
        )
    from anyseq.cli.question import imported_or_made

    return imported_or_made("audit", name)


def _declared(text: str) -> Any:
    if _is_file(text) or not _is_import(text):
        return text
    from anyseq.cli.question import imported

    return imported("--declared", text)


def _is_file(text: str) -> bool:
    return text.endswith(".json") or exists(text)


def _is_import(text: str) -> bool:
    return re.fullmatch(r"[^\W\d][\w.]*:[^\W\d][\w.]*", text) is not None
