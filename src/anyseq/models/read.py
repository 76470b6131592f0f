"""`anyseq.read`: any model as a Design."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from types import MappingProxyType
from typing import Any

import torch

from anyseq.base import at_least_one, one_thread
from anyseq.design import Design
from anyseq.errors import InvalidArgument, UnsupportedModel
from anyseq.models.capped import CAPPED, as_capped
from anyseq.models.quick_import import quick_import
from anyseq.models.read_module import read_module
from anyseq.models.reading import Fact, Reading
from anyseq.models.running import is_hugging_face
from anyseq.nn import Transformer, made_of
from anyseq.patterns import Causal, Full, Pattern, pattern_text

_MOST_TOKENS = 256  # for masks that are looked at pair by pair


def read(what: Any, tokens: int | None = None, *, example: Any = None) -> Reading:
    """A model as a Design, and how each fact about it is known.

    what: a Hugging Face model or config (an object, a dictionary, or the path of a config.json or
        of its folder); any torch module that maps (batch, tokens, features), or ids, to (batch,
        tokens, anything).
    tokens: the length to read it for. Unless given, that of a Hugging Face model is the one it was
        made for (max_position_embeddings and the like), or a shorter one where its patterns are too
        costly at that length, which the facts say; else it is 16, or a length that the module
        takes.
    example: the input of a torch module that takes something else, such as pictures: a tensor,
        of which the first item of the batch is used, or a tuple or a dictionary of them.

    For a Hugging Face model a small copy is built from the config, with random weights, and run on
    the CPU; nothing is downloaded, no code but transformers' own is run. A torch module is copied
    and run as it is, at that length.
    """
    if tokens is not None:
        at_least_one("tokens", tokens)
    own = isinstance(what, torch.nn.Module) and not is_hugging_face(what)
    if example is not None and (not own or isinstance(what, Transformer) or tokens is not None):
        raise InvalidArgument(
            "example: given; expected only with a torch module of your own, and without tokens"
        )
    # whatever the caller does; and the operators of small copies are too small for several threads
    with one_thread(), torch.inference_mode(False), torch.enable_grad():
        return _read(what, tokens, example)


def _read(what: Any, tokens: int | None, example: Any) -> Reading:
    if isinstance(what, Transformer):
        return _read_transformer(what, tokens)
    if isinstance(what, torch.nn.Module):
        if is_hugging_face(what):
            return _read_model(what, tokens)
        return read_module(what, tokens, example)
    if isinstance(what, str | PathLike | Mapping) or hasattr(what, "model_type"):
        with quick_import():
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
        domain=design.domain if module.vocab is None else "ids",
    )
    known = (Fact("its own design", "declared"),)
    capped = any(getattr(block.mixer, "softcap", None) is not None for block in module.blocks)
    finer = as_capped(design) if capped else None
    if finer is not None:
        return Reading(type(module).__name__, length, finer, known, unproved=(CAPPED,))
    return Reading(type(module).__name__, length, design, known)


def _read_model(model: Any, tokens: int | None) -> Reading:
    """A Hugging Face model is what its config says, if its class is transformers' own and its
    attention is unchanged."""
    from anyseq.models.read_config import read_config

    name = type(model).__name__
    if not type(model).__module__.startswith("transformers."):
        raise UnsupportedModel(f"{name}: its class is not one of transformers' own")
    if "anyseq_attachment" in model.__dict__:
        raise UnsupportedModel(
            f"{name}: anyseq.hf.use changed its attention, so its config does not describe it"
        )
    reading = read_config(model.config, tokens, name)
    return replace(reading, subject=f"{name}: {reading.subject}")


def idle(design: Design) -> list[Fact]:
    """Windows too wide to hide anything."""
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
    """Designs of parts, read-only."""
    return MappingProxyType(parts)
