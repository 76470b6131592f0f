"""A Hugging Face config, read as a Design: what it declares, and what a small copy shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any
from warnings import catch_warnings

import torch
from transformers import PreTrainedConfig
from transformers.models.auto import modeling_auto
from transformers.utils import logging

from anyseq.base import layers_text
from anyseq.design import USUAL_TOKENS, Design
from anyseq.errors import InvalidArgument, UnsupportedModel
from anyseq.models import declared
from anyseq.models.as_design import Described, as_design
from anyseq.models.configs import as_config, check_layers, text_part
from anyseq.models.context import LONGEST, followed_length, trained_length
from anyseq.models.facts import Declared
from anyseq.models.families import BY_HAND, CHECKED, block_sparse
from anyseq.models.look import Runs, SeenStack
from anyseq.models.read import idle, several
from anyseq.models.read_module import looked_at, turns
from anyseq.models.reading import Fact, Reading
from anyseq.models.readouts import readout_of
from anyseq.models.sizes import READ_TOKENS
from anyseq.models.small import ROWS, TOKENS, Small, small


def read_config(given: Any, tokens: int | None = None, kind: str | None = None) -> Reading:
    """A transformers config, a dictionary, or the path of a config.json or of its folder.

    kind: the class of the model, such as "BertForSequenceClassification"; the one that the config
        names unless given.
    """
    config = as_config(given)
    text = text_part(config)
    check_layers(text)
    with quiet():
        copy, stacks = copied(text)
    if not stacks:
        raise UnsupportedModel(
            f"{type(text).__name__}: no part of its model moves content between tokens"
        )
    named = getattr(config, "architectures", None)
    own = named[0] if isinstance(named, list) and len(named) == 1 else None
    seen = _Seen(config, text, copy, stacks, kind or (own if isinstance(own, str) else None))
    return seen.at_its_own_length() if tokens is None else seen.at(tokens)


@dataclass(frozen=True, eq=False)
class _Seen:
    """A config, its part about text, a small copy of that and the stacks of layers seen in it."""

    config: PreTrainedConfig
    text: PreTrainedConfig
    copy: Small
    stacks: tuple[SeenStack, ...]
    kind: str | None

    def at_its_own_length(self) -> Reading:
        """At the length that the model was made for, or as much of it as can be analysed."""
        own = self.room or trained_length(self.text, self.stacks[0].part)
        if own is None:
            return self.at(USUAL_TOKENS)
        reading = self.at(min(own, LONGEST))
        length, why = reading.tokens, "no more tokens than that can be analysed"
        if reading.design is not None and followed_length(reading.design) < length:
            length = followed_length(reading.design)
            why = "some pattern depends on more than i - j, and is analysed pair by pair"
            reading = self.at(length)
        if length == own:
            return reading
        says = f"read for {length:,} tokens of its {own:,}: {why}; give tokens= for another length"
        return replace(reading, facts=(*reading.facts, Fact(says, "declared")))

    @cached_property
    def room(self) -> int | None:
        """How many tokens the first stack's table of positions has room for; None if it has
        none."""
        seen = self.stacks[0].input.room
        return None if seen is None else declared.room(self.text, self.copy.model.config, seen)

    def at(self, tokens: int) -> Reading:
        """What is read, for so many tokens."""
        config, text = self.config, self.text
        if self.room is not None and tokens > self.room:
            raise InvalidArgument(
                f"tokens={tokens}: {type(text).__name__} has positions for {self.room} tokens"
            )
        facts: list[Fact] = []
        if getattr(config, "auto_map", None):
            says = f"auto_map is ignored: transformers' own {text.model_type} is read"
            facts.append(Fact(says, "declared"))
        found = {stack.part: _described(stack, text, self.copy, tokens) for stack in self.stacks}
        first = next(iter(found.values()))
        for part, one in found.items():
            prefix = f"{part}: " if part else ""
            facts += [Fact(prefix + fact.says, fact.source, fact.layers) for fact in one.facts]
        facts += [Fact(says, "declared") for says in declared.details(text)]
        hidden = list(declared.limits(text, tokens))
        design = None if hidden else first.design
        if design is not None:
            facts += idle(design)
            design = replace(design, readout=readout_of(text.model_type, self.kind))
            if design.readout != "all":
                which = "last" if design.readout == "last" else "first"
                facts.append(Fact(f"only the {which} output is read ({self.kind})", "declared"))
        unknown = [f"{part}: {why}" if part else why
                   for part, one in found.items() for why in one.unknown]  # fmt: skip
        unknown += [*hidden, *declared.additions(text, tokens)]
        return Reading(
            subject=_subject(config, text, self.stacks),
            tokens=tokens,
            design=design,
            facts=tuple(facts),
            unknown=tuple(unknown),
            contained=first.contained,
            unproved=tuple(why for one in found.values() for why in one.unproved),
            parts=several(_designs(found)),
        )


def copied(config: PreTrainedConfig, wider: int = 0) -> tuple[Small, tuple[SeenStack, ...]]:
    """A small copy and what it shows; in float32 if it cannot be run in float64, and with smaller
    weights if some mask is not a known one, or some positions were not seen: large scores may give
    keys a weight of 0, and so hide others. wider: for another copy (see `small`)."""
    copy = small(config, wider=wider)
    try:
        stacks = _seen_stacks(copy, config)
    except UnsupportedModel:
        copy = small(config, torch.float32, wider=wider)
        stacks = _seen_stacks(copy, config)
    known = all(layer.pattern is not None for stack in stacks for layer in stack.layers)
    if known and not _unseen(stacks):
        return copy, stacks
    gentle = small(config, copy.model.dtype, wider=wider, gain=0.25)
    gently = _seen_stacks(gentle, config)
    return (copy, stacks) if known and _unseen(gently) else (gentle, gently)


def _unseen(stacks: tuple[SeenStack, ...]) -> bool:
    """Whether some attention did not show how it depends on positions."""
    return any(
        layer.mixer == "attention" and not layer.borrows and layer.told.kind == "unseen"
        for stack in stacks
        for layer in stack.layers
    )


def _seen_stacks(copy: Small, config: PreTrainedConfig) -> tuple[SeenStack, ...]:
    """What a small copy shows of its stacks of layers."""
    model = copy.model
    runs = Runs(
        model,
        lambda: copy.run(copy.inputs),
        lambda: copy.run(copy.equal_inputs),
        ROWS,
        (TOKENS, READ_TOKENS),
        copy.widths,
        block_sparse(copy.widths),
        model.get_decoder() if config.is_encoder_decoder else None,
    )
    return looked_at(runs, type(config).__name__)


def _described(stack: SeenStack, config: PreTrainedConfig, copy: Small, tokens: int) -> Described:
    if config.model_type in BY_HAND:
        stack = BY_HAND[config.model_type](config, stack, tokens)
    known = Declared(
        checked=config.model_type in CHECKED,
        base=partial(declared.rotary_base, config),
        turns=turns(copy.model) or declared.rotary_base(config, 0) is not None,
        says_where_not=declared.layers_without_rotary(config),
        buckets=declared.buckets(config),
        causal=causal_by_config(config, stack),
        head=_has_head(config),
        ids=copy.model.main_input_name == "input_ids",
    )
    return as_design(stack, known, tokens)


def causal_by_config(config: PreTrainedConfig, stack: SeenStack) -> bool | None:
    """Whether the model's kind says that it is causal."""
    if stack.part:
        return stack.part == "decoder"
    kind = config.model_type
    if kind in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        return bool(getattr(config, "is_decoder", False))
    if kind in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        return getattr(config, "is_causal", True) is not False
    return None


def _has_head(config: PreTrainedConfig) -> bool:
    """Whether a linear map follows, in the usual models of that type."""
    return any(
        config.model_type in names
        for names in (
            modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
            modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
            modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
        )
    )


def _designs(found: dict[str, Described]) -> dict[str, Design]:
    if len(found) == 1:
        return {}
    return {part: one.design for part, one in found.items() if one.design is not None}


def _subject(
    config: PreTrainedConfig, text: PreTrainedConfig, stacks: tuple[SeenStack, ...]
) -> str:
    name = type(text).__name__
    part = "the encoder of " if stacks[0].part else "the text part of " * (config is not text)
    count = layers_text(len(stacks[0].layers))
    return f"{part}{name.removesuffix('Config')} ({name}), {count}"


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers for small copies: their ids and lengths are not the user's, and neither
    are its warnings."""
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with catch_warnings(action="ignore"):
            yield
    finally:
        logging.set_verbosity(before)
