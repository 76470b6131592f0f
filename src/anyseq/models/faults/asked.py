"""What an audit asks, of which subjects: the model itself, its parts, or small copies of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from time import perf_counter
from typing import Any

import torch

from anyseq.base import layers_named
from anyseq.design import Design
from anyseq.errors import AnyseqError, InvalidArgument
from anyseq.models.faults.claims import Claims, claims_of, only
from anyseq.models.faults.fault import Fault
from anyseq.models.faults.rule import Asked, Rule
from anyseq.models.faults.rules import LAYERS, RULES
from anyseq.models.faults.single import single_layers
from anyseq.models.faults.subject import Subject
from anyseq.models.faults.subjects import (
    TOKENS,
    hugging_face,
    itself,
    plain,
    too_large,
    weights,
)
from anyseq.models.one_line import in_one_line
from anyseq.models.read import read
from anyseq.nn import Transformer

_MOST_TOKENS = 256  # that a model is run on to go past its windows, unless told otherwise
_RUNS = 500  # of one sequence: what an audit of a decoder costs, about


@dataclass(frozen=True)
class Question:
    """subject, declared: in words. notes: what was done otherwise than one might expect."""

    subject: str
    declared: str
    asked: Sequence[Asked]
    rules: tuple[Rule, ...] = RULES
    notes: tuple[str, ...] = ()
    copies: tuple[Subject, ...] = ()

    def told(self, fault: Fault, asked: Asked) -> Fault:
        """A fault as it is told: where it was seen in a small copy, that is said."""
        if asked.subject not in self.copies:
            return fault
        build = (
            "from anyseq.models import small_copy\n\n"
            "model = small_copy(model.config, type(model))\n"
        )
        says = f"in a small copy of its class: {fault.says}"
        return replace(fault, says=says, snippet=build + fault.snippet)


def of_config(config: Any, declared: Any) -> Question:
    """Of transformers' own model of a config, small."""
    _check_config(config)
    from anyseq.models.faults.config_claims import by_config

    found = by_config(config)
    claims = found.small if declared is None else _given(declared, found.small)
    model = found.healthy.model.float()
    asked = _paired(model, claims, model, None)
    return Question(
        f"{type(model).__name__}, a small copy made from the config",
        _source(declared, "the config"),
        asked,
    )


def of_module(
    model: torch.nn.Module, declared: Any, tokens: int | None, layers: tuple[int, ...] | None
) -> Question:
    """Of a torch module of somebody's own."""
    if layers is not None:
        raise InvalidArgument("layers: expected only with a Hugging Face model")
    name = type(model).__name__
    if declared is None and isinstance(model, Transformer):
        claims = claims_of(read(model).design)
        length = tokens or min(max(TOKENS, claims.longest()), model.design.tokens)
        length = next((one for one in _lengths(claims)), length)
    elif declared is None:
        raise InvalidArgument(
            f"declared: missing; expected what {name} attends to, such as aq.Causal(), a Design or "
            "a Hugging Face config"
        )
    else:
        claims = _single(declared, name)
        length = next(iter(_lengths(claims)), None) or tokens or _length(claims, None)[0]
        if tokens is None and length == TOKENS:
            length = 0  # whatever it takes
    (subject,) = plain(model, length or None)
    return Question(
        f"{name} ({subject.how})", _source(declared, "its own design"), [Asked(subject, claims)]
    )


def of_transformers(
    model: Any,
    declared: Any,
    tokens: int | None,
    layers: tuple[int, ...] | None,
    seconds: float,
) -> Question:
    """Of a Hugging Face model: itself, if that is quick; and small, if it is not or if its windows
    are too wide to go past."""
    from anyseq.models.faults.config_claims import by_config

    name = type(model).__name__
    if declared is None or _is_config(declared):
        found = by_config(model.config if declared is None else declared)
        claims, small, own = found.claims, found.small, found.healthy.model
    else:
        claims, small, own = _given(declared, {"": None}), {}, None
    room = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    length, wide = max(
        (_length(one, room) if tokens is None else (tokens, False) for one in claims.values()),
    )
    if layers is not None:
        return _single_layers(model, claims, length, layers, declared)
    cost = _cost(model, length)
    notes, asked, copies, words = [], [], [], []
    if cost <= seconds:
        asked = _paired(model, claims, own, length)
        words.append(asked[0].subject.how)
    else:
        notes.append(_too_long(model, cost))
    if (cost > seconds or wide) and small:
        try:
            from anyseq.models.small import small_copy

            asked += (more := _paired(small_copy(model.config, type(model)), small, own, None))
            copies = [one.subject for one in more]
            words.append("a small copy of its class")
        except AnyseqError as problem:
            notes.append(f"no small copy of its class could be audited: {in_one_line(problem)}")
    if wide:
        notes.append(
            f"windows that are wider than {length} tokens were "
            + ("looked at in a small copy of the model's class, which has nothing of what was "
               "changed on this instance" if copies else "not looked at")
            + "; tokens= goes past them here"
        )  # fmt: skip
    return Question(
        f"{name} ({', '.join(words)})", _source(declared, "its config"), asked,
        notes=tuple(notes), copies=tuple(copies),
    )  # fmt: skip


def _too_long(model: Any, cost: float) -> str:
    if cost == float("inf"):
        return (
            f"the model itself was not run: its {weights(model):,} weights are too many to copy; "
            "layers=(1, 2) compares these layers of it"
        )
    return (
        f"the model itself was not audited: that would take about {cost:,.0f} s; give "
        f"seconds={2 * cost:,.0f} for it, or layers=(1, 2) for these layers of it"
    )


def _single_layers(
    model: Any, claims: Mapping[str, Claims], tokens: int, layers: tuple[int, ...], declared: Any
) -> Question:
    """Of some layers of the model itself, as it is, each run by itself."""
    if list(claims) != [""]:
        raise InvalidArgument("layers: expected only with a model that has one stack of layers")
    subject = itself(model, tokens)
    asked = Asked(subject, only(claims[""], layers))
    rules = (Rule("layers", single_layers, LAYERS.risk),)
    source = _source(declared, "its config")
    words = f"{subject.name} (the model itself, {layers_named(layers)})"
    return Question(words, source, [asked], rules)


def _paired(model: Any, claims: Mapping[str, Claims], own: Any, tokens: int | None) -> list[Asked]:
    """A model's parts, each with what is declared of it."""
    asked = []
    for subject in hugging_face(model, tokens):
        part = subject.part
        if not part and "encoder" in claims:  # one half of an encoder-decoder, by itself
            part = "decoder" if getattr(model.config, "is_decoder", False) else "encoder"
        if part not in claims:
            raise InvalidArgument(
                f"declared: says nothing of the {part or 'model'} of {subject.name}; "
                "expected a config of the same kind"
            )
        healthy = None if own is None else partial(_part, own, part)
        asked.append(Asked(subject, claims[part], healthy))
    return asked


def _part(model: Any, part: str) -> Subject:
    return next(one for one in hugging_face(deepcopy(model).float(), None) if one.part == part)


def _cost(model: Any, tokens: int) -> float:
    """Seconds that an audit of the model itself takes, about; infinite if it is not copied."""
    if too_large(model):
        return float("inf")
    subject = itself(model, tokens)
    x = subject.draw()
    subject.run(x)
    start = perf_counter()
    subject.run(x)
    return (perf_counter() - start) * _RUNS


def _length(claims: Claims, room: int | None) -> tuple[int, bool]:
    """How many tokens show what is declared; and whether some windows are too wide for that."""
    longest = claims.longest()
    most = min(_MOST_TOKENS, room or _MOST_TOKENS)
    usual = min(TOKENS, most)
    if longest + 2 <= usual:
        return usual, False
    return (usual, True) if longest > most else (min(longest + 6, most), False)


def _lengths(claims: Claims) -> list[int]:
    """The only lengths that the patterns are for, if there are such."""
    found = (one.pattern.natural_length for one in claims.layers if one.pattern is not None)
    return [one for one in found if one is not None]


def _is_config(declared: Any) -> bool:
    return isinstance(declared, str | PathLike | Mapping) or hasattr(declared, "model_type")


def _check_config(what: Any) -> None:
    if not _is_config(what):
        raise InvalidArgument(
            f"model={what!r}: expected a torch module, or a Hugging Face config or its path"
        )


def _single(declared: Any, name: str) -> Claims:
    """What is declared of one stack."""
    if not _is_config(declared):
        return claims_of(declared)
    from anyseq.models.faults.config_claims import by_config

    claims = by_config(declared).claims
    if "" not in claims:
        raise InvalidArgument(f"declared: a config of encoder and decoder, and {name} is one stack")
    return claims[""]


def _given(declared: Any, parts: Mapping[str, Any]) -> dict[str, Claims]:
    if _is_config(declared):
        from anyseq.models.faults.config_claims import by_config

        return by_config(declared).claims
    if list(parts) != [""]:
        raise InvalidArgument("declared: expected a config, for a model with encoder and decoder")
    return {"": claims_of(declared)}


def _source(declared: Any, own: str) -> str:
    if declared is None:
        return own
    if isinstance(declared, str | PathLike):
        return str(declared)
    if isinstance(declared, Design):
        return "the design given"
    return "the config given" if _is_config(declared) else claims_of(declared).source
