"""A Hugging Face config, read as a Design. Nothing of the model is built, no remote code is run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from transformers import CONFIG_MAPPING, PreTrainedConfig

from anyseq.base import at_least_one, layers_text
from anyseq.design import USUAL_TOKENS, Design
from anyseq.errors import FileProblem, InvalidArgument, UnsupportedModel
from anyseq.hf.attend import NAME
from anyseq.hf.families import FAMILIES, longest
from anyseq.hf.outline import describe, shortest_cycle
from anyseq.patterns import Blocks, Causal, Full, Pattern, pattern_text

_MOST_LAYERS = 10_000


@dataclass(frozen=True)
class Reading:
    """What a config says.

    subject: whose config it is, or of which part of that it speaks.
    tokens: the length it was read for.
    design: the attention design, depth = number of layers (1 if there are none); every network of
        that config, whatever its weights, is token by token a function of a network of this design.
        None if it is not attention or no Design describes it.
    facts: what was read. unsure: what the Design does not say, and why a True for the design would
        not be proved for the model; where there is no design, first why not.
    """

    subject: str
    tokens: int
    design: Design | None
    facts: tuple[str, ...]
    unsure: tuple[str, ...]


def read_config(config: Any, tokens: int | None = None) -> Reading:
    """A transformers config, a dictionary, or the path of a config.json or of its folder.

    tokens: 16 unless given, or fewer if the model takes no more. A window that is wider hides
    nothing then, and the facts say so: ask for the length that you use.

    Configs that name code of their own (auto_map) are refused unless transformers has a model of
    that type itself; that is the one that is read.
    """
    own = config if isinstance(config, PreTrainedConfig) else _load(config)
    _refuse_foreign(own)
    if getattr(own, NAME, None) is not None and own._attn_implementation == NAME:
        raise UnsupportedModel(
            f"{type(own).__name__}: the model was saved after anyseq.hf.use changed its attention, "
            "which its config does not describe; check the pattern that was put on"
        )
    text = own.get_text_config()
    if not isinstance(text, PreTrainedConfig):
        raise UnsupportedModel(
            f"{type(own).__name__} with a text config of type {type(text).__name__}; expected one "
            "that describes a model"
        )
    _check_known(text)
    _check_layers(text)
    try:
        limit = longest(text)
    except (AttributeError, TypeError, ValueError) as problem:
        raise UnsupportedModel(
            f"{type(text).__name__} does not say how many positions it has: {problem}"
        ) from problem
    if tokens is None:
        tokens = USUAL_TOKENS if limit is None else min(USUAL_TOKENS, limit)
    if at_least_one("tokens", tokens) > (limit or tokens):
        raise InvalidArgument(
            f"tokens={tokens}: {type(text).__name__} has positions for {limit} tokens"
        )
    try:
        outline = FAMILIES[text.model_type](text, tokens)
    except InvalidArgument as problem:
        raise UnsupportedModel(f"{type(text).__name__} with {problem}") from problem
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
        raise UnsupportedModel(
            f"{type(text).__name__} cannot be read as a design: {type(problem).__name__} {problem}"
        ) from problem
    facts = list(outline.facts)
    if getattr(own, "auto_map", None):
        facts.insert(0, f"auto_map is ignored: transformers' own {text.model_type} is read")
    design = None
    layers = outline.layers
    if outline.position is not None and not layers:
        facts.append("no layers: as one in which a token sees itself only")
        layers = (Blocks(1),)
    if layers:
        facts.append(describe(shortest_cycle(layers)))
    if outline.position is not None:
        design = Design(
            tokens,
            patterns=shortest_cycle(layers),
            position=outline.position,
            sinks=outline.sinks,
            depth=len(layers),
        )
        facts += [
            f"among {tokens} tokens {pattern_text(pattern)} hides nothing"
            for pattern in dict.fromkeys(design.cycle)
            if _idle(pattern, tokens)
        ]
    count = text.num_hidden_layers
    name = type(text).__name__
    part = "the encoder of " if own.is_encoder_decoder else "the text part of " * (own is not text)
    subject = f"{part}{name.removesuffix('Config')} ({name}), {layers_text(count)}"
    return Reading(subject, tokens, design, tuple(facts), outline.unsure)


def _load(config: Any) -> PreTrainedConfig:
    """The config that a dictionary or a file describes, by transformers' own class for its type."""
    if not isinstance(config, Mapping):
        config = _read_json(config)
    kind = config.get("model_type")
    if not isinstance(kind, str):
        raise UnsupportedModel(
            f"config: model_type={kind!r}; expected the name of a family, one of "
            f"{', '.join(sorted(FAMILIES))}"
        )
    if kind == "mistral" and "layer_types" in config:
        kind = "ministral"  # what transformers makes of it
    if kind not in FAMILIES and config.get("auto_map"):
        raise UnsupportedModel(
            f"model_type={kind!r}: the config names code of its own (auto_map), which is never run"
        )
    if kind not in CONFIG_MAPPING:
        raise UnsupportedModel(_unknown(kind))
    try:
        return CONFIG_MAPPING[kind].from_dict(dict(config))
    except Exception as problem:  # transformers checks configs with errors of many kinds
        text = " ".join(str(problem).split())
        raise InvalidArgument(f"config of model_type {kind!r} cannot be read: {text}") from problem


def _read_json(path: Any) -> Mapping[str, Any]:
    if not isinstance(path, str | PathLike):
        raise InvalidArgument(
            f"config={type(path).__name__}: expected a transformers config, a dictionary, or the "
            "path of a config.json"
        )
    file = Path(path)
    try:
        if file.is_dir():
            file = file / "config.json"
        if not file.is_file():
            raise FileProblem(f"{str(file)!r} is not there; expected a config.json or its folder")
        found = json.loads(file.read_text())
    except (OSError, ValueError, RecursionError) as problem:
        raise FileProblem(f"{str(file)!r} cannot be read as a config: {problem}") from problem
    if not isinstance(found, dict):
        raise FileProblem(f"{str(file)!r} holds a {type(found).__name__}; expected a config")
    return found


def _refuse_foreign(config: PreTrainedConfig) -> None:
    """Only transformers' own classes are known to mean what they say."""
    module = type(config).__module__
    if not module.startswith("transformers."):
        raise UnsupportedModel(
            f"{type(config).__name__} comes from {module}, not from transformers: what its model "
            "does cannot be read from it"
        )


def _check_known(config: PreTrainedConfig) -> None:
    if config.model_type not in FAMILIES:
        raise UnsupportedModel(_unknown(config.model_type))
    if getattr(config, "is_causal", True) is False:
        raise UnsupportedModel(
            f"{type(config).__name__} with is_causal=False: which attention follows it depends on "
            "the implementation; read the model, not its config"
        )


def _check_layers(config: PreTrainedConfig) -> None:
    """A number of layers, before anything is made for each of them."""
    for name in ("num_hidden_layers", "num_layers"):
        count = getattr(config, name, 0)
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= _MOST_LAYERS:
            raise UnsupportedModel(
                f"{type(config).__name__} with {name}={str(count)[:40]}: expected a whole number "
                f"from 0 to {_MOST_LAYERS:,}"
            )


def _unknown(kind: object) -> str:
    return f"model_type={kind!r}: expected one of {', '.join(sorted(FAMILIES))}"


def _idle(pattern: Pattern, tokens: int) -> bool:
    """Whether a window is so wide that it hides nothing."""
    offsets = pattern.offsets(tokens)
    if offsets is None or pattern in (Causal(), Full()):
        return False
    return any(offsets.equal(plain.offsets(tokens)) for plain in (Causal(), Full()))
