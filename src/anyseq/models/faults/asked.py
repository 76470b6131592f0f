"""What an audit checks, on which subjects; the case of a user's torch module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from os.path import exists
from typing import Any

import torch

from anyseq.design import Design
from anyseq.errors import InvalidArgument
from anyseq.models.faults.claims import Claims, claims_of
from anyseq.models.faults.fault import Fault
from anyseq.models.faults.rule import Asked, Rule
from anyseq.models.faults.rules import RULES
from anyseq.models.faults.subject import Subject
from anyseq.models.faults.subjects import TOKENS, plain
from anyseq.models.read import read
from anyseq.nn import Transformer

_MOST_TOKENS = 256  # that a model is run on to go past its windows, unless told otherwise


@dataclass(frozen=True)
class Question:
    """subject, declared: in words. notes: what was done differently from what one might expect.
    faults: those found without running anything. copies: small copies, which the text of a fault
    names."""

    subject: str
    declared: str
    asked: Sequence[Asked]
    rules: tuple[Rule, ...] = RULES
    notes: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    copies: tuple[Subject, ...] = ()

    def told(self, fault: Fault, asked: Asked) -> Fault:
        """A fault in words; if it was seen in a small copy, it says so."""
        if asked.subject not in self.copies:
            return fault
        build = (
            "from anyseq.models import small_copy\n\n"
            "model = small_copy(model.config, type(model))\n"
        )
        says = f"in a small copy of its class: {fault.says}"
        return replace(fault, says=says, snippet=build + fault.snippet)


def of_module(
    model: torch.nn.Module, declared: Any, tokens: int | None, layers: tuple[int, ...] | None
) -> Question:
    """For a user's torch module."""
    if layers is not None:
        raise InvalidArgument("layers: expected only with a Hugging Face model")
    name = type(model).__name__
    if declared is None and isinstance(model, Transformer):
        claims = claims_of(read(model).design)
        length = tokens or min(max(TOKENS, claims.longest()), model.design.tokens)
        length = next((one for one in natural_lengths(claims)), length)
    elif declared is None:
        raise InvalidArgument(
            f"declared: missing; expected what {name} attends to: a pattern or its text, such as "
            "causal or causal & window(64), a Design, or a Hugging Face config"
        )
    else:
        claims = _single(declared, name)
        length = next(iter(natural_lengths(claims)), None) or tokens or length_of(claims, None)[0]
        if tokens is None and length == TOKENS:
            length = 0  # whatever it takes
    (subject,) = plain(model, length or None)
    return Question(
        f"{name} ({subject.how}, {subject.tokens} tokens)",
        source_of(declared, "its own design"),
        [Asked(subject, claims)],
    )


def length_of(claims: Claims, room: int | None) -> tuple[int, bool]:
    """How many tokens are needed to show what is declared; and whether some windows are too wide
    for that."""
    longest = claims.longest()
    most = min(_MOST_TOKENS, room or _MOST_TOKENS)
    usual = min(TOKENS, most)
    if longest + 2 <= usual:
        return usual, False
    return (usual, True) if longest > most else (min(longest + 6, most), False)


def natural_lengths(claims: Claims) -> list[int]:
    """The only lengths that the patterns fit, if they are limited."""
    found = (one.pattern.natural_length for one in claims.layers if one.pattern is not None)
    return [one for one in found if one is not None]


def is_config(declared: Any) -> bool:
    """Whether it is a config, or the path of one; other strings are patterns."""
    if isinstance(declared, str):
        return declared.endswith(".json") or exists(declared)
    return isinstance(declared, PathLike | Mapping) or hasattr(declared, "model_type")


def _single(declared: Any, name: str) -> Claims:
    """What is declared of one stack."""
    if not is_config(declared):
        return claims_of(declared)
    from anyseq.models.faults.config_claims import by_config

    claims = by_config(declared).claims
    if "" not in claims:
        raise InvalidArgument(f"declared: a config of encoder and decoder, and {name} is one stack")
    return claims[""]


def source_of(declared: Any, own: str) -> str:
    """Where a declaration comes from, in words; own: if it is the model's own."""
    if declared is None:
        return own
    if isinstance(declared, Design):
        return "the design given"
    if not is_config(declared):
        return claims_of(declared).source
    return str(declared) if isinstance(declared, str | PathLike) else "the config given"
