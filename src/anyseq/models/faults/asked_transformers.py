"""What an audit checks on a Hugging Face model or a config: the model itself, some of its layers,
or small copies."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import partial
from time import perf_counter
from typing import Any

from anyseq.base import layers_named
from anyseq.errors import AnyseqError, InvalidArgument, UnsupportedModel
from anyseq.hf import patterns_on
from anyseq.models.faults.asked import Question, is_config, length_of, source_of
from anyseq.models.faults.claims import Claims, claims_of, narrowed, only
from anyseq.models.faults.config_claims import ByConfig, by_config
from anyseq.models.faults.fault import Fault
from anyseq.models.faults.layers import together
from anyseq.models.faults.rule import Asked, Rule
from anyseq.models.faults.rules import LAYERS
from anyseq.models.faults.single import single_layers
from anyseq.models.faults.subject import Subject
from anyseq.models.faults.subjects import hugging_face, itself, too_large, weights
from anyseq.models.one_line import in_one_line
from anyseq.models.small import small_copy

_RUNS = 500  # of one sequence: what an audit of a decoder costs, about


def of_config(config: Any, declared: Any) -> Question:
    """For transformers' own model of a config, small."""
    if not (declared is None or is_config(declared)):
        raise InvalidArgument(
            "declared: a config is audited through a small copy with windows of its own, so only "
            "another config can be declared; build the model to compare it with something else"
        )
    found = by_config(config)
    asked = _paired(found.healthy.model.float(), found.small, found.healthy.model, None)
    return Question(
        f"{asked[0].subject.name} (a small copy made from the config, "
        f"{asked[0].subject.tokens} tokens)",
        source_of(declared, "the config"),
        asked,
        faults=() if declared is None else _contradicting(found, by_config(declared)),
    )


def of_transformers(
    model: Any,
    declared: Any,
    tokens: int | None,
    layers: tuple[int, ...] | None,
    seconds: float,
) -> Question:
    """For a Hugging Face model: the model itself, if that is quick; and a small copy, if it is not
    or if its windows are wider than the audit can exceed."""
    name = type(model).__name__
    try:
        found = by_config(model.config)
    except UnsupportedModel:  # what is declared may be read where the model's own config is not
        if not is_config(declared):
            raise
        found = by_config(declared)
    claims, small, own = found.claims, found.small, found.healthy.model
    faults: tuple[Fault, ...] = ()
    if declared is None:
        claims = _put_on(model, claims)
    elif is_config(declared):
        claims = (other := by_config(declared)).claims
        faults = _contradicting(found, other)
    else:
        claims, small = _given(declared, claims), {}
    room = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    length, wide = max(
        (length_of(one, room) if tokens is None else (tokens, False) for one in claims.values()),
    )
    if layers is not None:
        return _single_layers(model, claims, length, layers, declared)
    cost = _cost(model, length)
    notes, asked, copies, words = [], [], [], []
    if cost <= seconds:
        asked = _paired(model, claims, own, length)
        words.append(f"{asked[0].subject.how}, {asked[0].subject.tokens} tokens")
    else:
        notes.append(_too_long(model, cost))
    if (cost > seconds or wide) and small:
        try:
            asked += (more := _paired(small_copy(model.config, type(model)), small, own, None))
            copies = [one.subject for one in more]
            words.append(f"a small copy of its class, {more[0].subject.tokens} tokens")
        except AnyseqError as problem:
            notes.append(f"no small copy of its class could be audited: {in_one_line(problem)}")
    if wide:
        notes.append(
            f"windows wider than {length} tokens were "
            + ("checked in a small copy of the model's class, without any changes made "
               "to this instance" if copies else "not checked")
            + "; tokens= goes past them here"
        )  # fmt: skip
    return Question(
        f"{name} ({', '.join(words)})", source_of(declared, "its config"), asked,
        notes=tuple(notes), copies=tuple(copies), faults=faults if wide or cost > seconds else (),
    )  # fmt: skip


def _contradicting(own: ByConfig, declared: ByConfig) -> tuple[Fault, ...]:
    """Layers about which two configs disagree."""
    found = []
    for part, claims in own.claims.items():
        others = declared.claims.get(part)
        if others is None or len(others.layers) != len(claims.layers):
            raise InvalidArgument(
                f"declared: a {type(declared.config).__name__} with other layers than the "
                f"{type(own.config).__name__} of the model; expected a config of the same kind"
            )
        for number, (one, other) in enumerate(zip(claims.layers, others.layers, strict=True), 1):
            if None in (one.pattern, other.pattern) or one.pattern == other.pattern:
                continue
            says = f"by its own config it has {one.text}; declared: {other.text}"
            shows = "import anyseq as aq\n\nprint(aq.read(model.config))\n"
            found.append(Fault("window", says, (number,), one.module, size=1.0, snippet=shows,
                               repair="change one of the two configs"))  # fmt: skip
    return tuple(together(found))


def _put_on(model: Any, claims: dict[str, Claims]) -> dict[str, Claims]:
    """With the patterns that `hf.use` put on a model, of its encoder's layers first."""
    patterns, start, found = patterns_on(model) or (), 0, {}
    for part, one in claims.items():
        found[part] = narrowed(one, patterns[start:], "anyseq.hf.use")
        start += sum(layer.attends is True for layer in one.layers)
    return found


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
    """For some layers of the model itself, each run by itself."""
    if list(claims) != [""]:
        raise InvalidArgument("layers: expected only with a model that has one stack of layers")
    subject = itself(model, tokens)
    asked = Asked(subject, only(claims[""], layers))
    rules = (Rule("layers", single_layers, LAYERS.risk),)
    source = source_of(declared, "its config")
    words = f"{subject.name} (the model itself, {layers_named(layers)}, {tokens} tokens)"
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
                f"declared: says nothing about the {part or 'model'} of {subject.name}; expected a "
                "config of the same kind"
            )
        healthy = None if own is None else partial(_part, own, part)
        asked.append(Asked(subject, claims[part], healthy))
    return asked


def _part(model: Any, part: str) -> Subject:
    return next(one for one in hugging_face(deepcopy(model).float(), None) if one.part == part)


def _cost(model: Any, tokens: int) -> float:
    """Approximate seconds that an audit of the model itself takes; infinite if it is not copied."""
    if too_large(model):
        return float("inf")
    subject = itself(model, tokens)
    x = subject.draw()
    subject.run(x)
    start = perf_counter()
    subject.run(x)
    return (perf_counter() - start) * _RUNS


def _given(declared: Any, parts: Mapping[str, Any]) -> dict[str, Claims]:
    if is_config(declared):
        return by_config(declared).claims
    if list(parts) != [""]:
        raise InvalidArgument("declared: expected a config, for a model with encoder and decoder")
    return {"": claims_of(declared)}
