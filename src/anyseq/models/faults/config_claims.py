"""What a Hugging Face config declares, by its entries and by a small copy of transformers'
model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from transformers import PreTrainedConfig
from transformers.models.auto import modeling_auto

from anyseq.errors import UnsupportedModel
from anyseq.models.configs import as_config, check_layers, text_part
from anyseq.models.declared import said
from anyseq.models.families import BY_HAND
from anyseq.models.faults.claims import Claim, Claims
from anyseq.models.look import SeenLayer, SeenStack
from anyseq.models.read_config import causal_by_config, copied, quiet
from anyseq.models.small import Small
from anyseq.patterns import Blocks, Causal, Full, Pattern, Window

_WINDOWS = ("sliding_window", "local_attention", "sliding_window_size", "window_size")
_BOTH = modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
_CHUNKS = ("attention_chunk_size",)
_TOKENS = 4096  # more than any model reads at once in an audit


@dataclass(frozen=True)
class ByConfig:
    """What a config declares of each stack: "", or "encoder" and "decoder"; at its own size and at
    that of small copies."""

    config: PreTrainedConfig
    claims: dict[str, Claims]
    small: dict[str, Claims]
    healthy: Small


def by_config(given: Any) -> ByConfig:
    """The claims of a config, a dictionary, or the path of a config.json or of its folder.

    Transformers' own model of that config is read as by `read`. Where the config's entries
    (layer_types, and whether a model is causal) contradict it, the entries count: the shipped code
    may itself have the fault.
    """
    config = text_part(as_config(given))
    check_layers(config)
    half = config.model_type in _BOTH and not config.is_encoder_decoder
    if half and type(config)().is_encoder_decoder:
        # models that are one half of such a family say so in their configs
        whole = {"is_encoder_decoder": True, "is_decoder": False}
        config = type(config).from_dict(config.to_dict() | whole)
    with quiet():
        copy, stacks = copied(config)
    claims, small = {}, {}
    for stack in stacks:
        if config.model_type in BY_HAND:
            stack = BY_HAND[config.model_type](config, stack, _TOKENS)
        claims[stack.part] = _claims(config, stack, "real")
        small[stack.part] = _claims(copy.model.config, stack, "small")
    if not claims:
        raise UnsupportedModel(
            f"{type(config).__name__}: no part of its model moves content between tokens"
        )
    return ByConfig(config, claims, small, copy)


def _claims(config: PreTrainedConfig, stack: SeenStack, size: str) -> Claims:
    causal = causal_by_config(config, stack) and not _is_an_encoder(config, stack)
    words = list(_by_words(config, len(stack.layers), causal)) if stack.part == "" else []
    layers = []
    for number, seen in enumerate(stack.layers):
        claim = _claim(seen, size)
        said_so = words[number] if number < len(words) else None
        if said_so is not None and _contradict(claim.pattern, said_so.pattern):
            claim = replace(claim, pattern=said_so.pattern, why=said_so.why)
        elif said_so is not None:
            claim = replace(claim, why=said_so.why)
        layers.append(claim)
    return Claims(
        f"{type(config).__name__}",
        tuple(layers),
        causal or all(_looks_back(one.pattern) for one in layers),
        shifts=stack.input.kind != "none",
    )


def _is_an_encoder(config: PreTrainedConfig, stack: SeenStack) -> bool:
    """Whether a model of a kind that may decode says that it does not, and attends to later tokens
    in every layer: the config alone is no proof, since GPT-NeoX's says so, too."""
    says = not stack.part and getattr(config, "is_decoder", None) is False
    found = [one.pattern for one in stack.layers]
    return says and not any(one is None or _looks_back(one.small) for one in found)


def _claim(seen: SeenLayer, size: str) -> Claim:
    name, found = seen.module[0], seen.pattern
    pattern = None if found is None else found.real if size == "real" else found.small
    if seen.mixer != "attention":
        return Claim(name, pattern, None, attends=False)
    told = None if seen.borrows else seen.told.kind
    return Claim(name, pattern, told, attends=None if seen.borrows else True)


def _by_words(config: PreTrainedConfig, count: int, causal: bool | None) -> Iterator[Claim | None]:
    """What layer_types says of each layer."""
    kinds = said(config, "layer_types")
    if not isinstance(kinds, list) or len(kinds) != count or causal is None:
        return
    plain: Pattern = Causal() if causal else Full()
    for kind in kinds:
        why = f"layer_types: {kind}"
        match kind:
            case "full_attention":
                yield Claim("", plain, why=why)
            case "sliding_attention":
                name, width = _width(config, _WINDOWS)
                reach = width - 1 if causal else width // 2
                yield Claim("", plain & Window(reach), why=f"{why}, {name}={width}")
            case "chunked_attention":
                name, width = _width(config, _CHUNKS)
                yield Claim("", plain & Blocks(width), why=f"{why}, {name}={width}")
            case _:
                yield None


def _width(config: PreTrainedConfig, names: tuple[str, ...]) -> tuple[str, int]:
    for name in names:
        value = said(config, name)
        if isinstance(value, int) and value > 0:
            return name, value
    return names[0], _TOKENS


def _contradict(seen: Pattern | None, words: Pattern | None) -> bool:
    """Whether one hides earlier or later tokens where the other hides none: not by how much."""
    if seen is None or words is None:
        return words is not None
    kinds = [(one in (Causal(), Full()), _looks_back(one)) for one in (seen, words)]
    return kinds[0] != kinds[1]


def _looks_back(pattern: Pattern | None) -> bool:
    return pattern is not None and not bool(pattern.mask(8).triu(1).any())
