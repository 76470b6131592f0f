"""`anyseq.read`: any model as a Design."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from types import MappingProxyType
from typing import Any

import torch

from anyseq.base import at_least_one, generator, uniform
from anyseq.design import Design
from anyseq.errors import InvalidArgument, UnsupportedModel
from anyseq.models.as_design import as_design
from anyseq.models.facts import Declared
from anyseq.models.look import Runs, SeenStack, look
from anyseq.models.one_line import in_one_line
from anyseq.models.reading import Fact, Reading
from anyseq.models.running import as_function, is_hugging_face
from anyseq.nn import Transformer, made_of
from anyseq.patterns import Causal, Full, Pattern, pattern_text

_MOST_TOKENS = 256  # of a module that is itself run


def read(what: Any, tokens: int | None = None) -> Reading:
    """What a model is, as a Design, and how each fact is known.

    what: a Hugging Face model or config (an object, a dictionary, or the path of a config.json or
        of its folder); any torch module that maps (batch, tokens, features), or ids, to (batch,
        tokens, anything).
    tokens: the length to read it for; 16 unless given, or fewer if the model takes no more.

    Of a Hugging Face model a small copy is built from the config, with random weights, and run on
    the CPU; nothing is downloaded, no code but transformers' own is run. A torch module is copied
    and run as it is, at that length.
    """
    if tokens is not None:
        at_least_one("tokens", tokens)
    if isinstance(what, Transformer):
        return _read_transformer(what, tokens)
    if isinstance(what, torch.nn.Module) and is_hugging_face(what):
        return _read_model(what, tokens)
    if isinstance(what, torch.nn.Module):
        return _read_module(what, tokens)
    if isinstance(what, str | PathLike | Mapping) or hasattr(what, "model_type"):
        from anyseq.models.read_config import read_config  # transformers is slow to import

        return read_config(what, tokens)
    raise InvalidArgument(
        f"what={what!r}: expected a Hugging Face model or config, the path of a config.json, or a "
        "torch module"
    )


def _read_transformer(module: Transformer, tokens: int | None) -> Reading:
    """Its own design, with the depth it has."""
    design = module.design
    length = design.tokens if tokens is None else tokens
    lengths = {pattern.natural_length for pattern in design.cycle} - {None}
    if length > design.tokens or lengths - {length + design.bos}:
        raise InvalidArgument(f"tokens={length}: the Transformer's design has {design.tokens}")
    layers = design.layer_cycle
    for number, block in enumerate(module.blocks):
        if not made_of(block.mixer, layers[number % len(layers)]):
            kind = type(block.mixer).__name__
            raise UnsupportedModel(f"blocks[{number}] is {kind}, not what its design says")
    if module.causal:
        layers = tuple(layer.of_the_past() for layer in layers)
    design = replace(
        design.with_layers(layers),
        tokens=length,
        depth=len(module.blocks),
        block_norm=None if module.norm == "none" else module.norm,
        head=design.head or module.vocab is not None,
    )
    return Reading(type(module).__name__, length, design, (Fact("its own design", "declared"),))


def _read_model(model: Any, tokens: int | None) -> Reading:
    """A Hugging Face model is what its config says, as long as its class is transformers' own and
    nobody changed its attention."""
    from anyseq.models.read_config import read_config

    name = type(model).__name__
    if not type(model).__module__.startswith("transformers."):
        raise UnsupportedModel(f"{name}: its class is not one of transformers' own")
    if "anyseq_attachment" in model.__dict__:
        raise UnsupportedModel(
            f"{name}: anyseq.hf.use changed its attention, so that its config does not describe it"
        )
    reading = read_config(model.config, tokens)
    return replace(reading, subject=f"{name}: {reading.subject}")


def _read_module(module: torch.nn.Module, tokens: int | None) -> Reading:
    """A copy of the module is run, in float64."""
    name = type(module).__name__
    function = as_function(module, tokens=tokens)
    length = function.tokens
    if length > _MOST_TOKENS:
        raise InvalidArgument(
            f"tokens={length}: {name} is read by running it, on up to {_MOST_TOKENS} tokens"
        )
    rows = length + 3  # another number than that of the tokens, so that it is seen which is which

    def run(equal: bool) -> Any:
        x = uniform(1, length, function.features, rng=generator(1))
        x = x[:, :1].expand_as(x) if equal else x
        return function(x.expand(rows, -1, -1).clone().requires_grad_())

    runs = Runs(function.module, lambda: run(False), lambda: run(True), rows, (length,), {})
    with function.random_weights(1):
        stacks = looked_at(runs, name)
    if not stacks:
        return Reading(name, length, None, (), ("no part of it moves content between tokens",))
    described = as_design(stacks[0], Declared(turns=turns(function.module)), length)
    return Reading(name, length, described.design, described.facts, described.unknown)


def looked_at(runs: Runs, name: str) -> tuple[SeenStack, ...]:
    """What is seen of a model; whatever goes wrong in it is said in one line."""
    try:
        return look(runs)
    except InvalidArgument:
        raise
    except Exception as problem:  # the model is somebody else's
        raise UnsupportedModel(
            f"{name} could not be run: {type(problem).__name__}: {in_one_line(problem)}"
        ) from problem


def turns(model: torch.nn.Module) -> bool:
    """Whether some part of a model turns vectors by their position, by the name of its class."""
    names = {type(part).__name__.lower() for part in model.modules()}
    return any("rotary" in name or "rope" in name for name in names)


def idle(design: Design) -> list[Fact]:
    """Windows that are so wide that they hide nothing."""
    found = []
    for pattern in dict.fromkeys(design.cycle):
        if _hides_nothing(pattern, design.tokens):
            says = f"among {design.tokens} tokens {pattern_text(pattern)} hides nothing"
            found.append(Fact(says, "declared"))
    return found


def _hides_nothing(pattern: Pattern, tokens: int) -> bool:
    if pattern in (Causal(), Full()):
        return False
    offsets = pattern.offsets(tokens)
    if offsets is None:
        mask = pattern.mask(tokens) if tokens <= _MOST_TOKENS else None
        return mask is not None and any(
            mask.equal(plain.mask(tokens)) for plain in (Causal(), Full())
        )
    return any(offsets.equal(plain.offsets(tokens)) for plain in (Causal(), Full()))


def several(parts: dict[str, Design]) -> Mapping[str, Design]:
    """Designs of parts, which nobody changes."""
    return MappingProxyType(parts)
