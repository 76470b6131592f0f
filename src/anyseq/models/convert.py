"""`anyseq.convert`: the weights of a Hugging Face model in an `nn.Transformer`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from anyseq.base import at_least_one
from anyseq.design import Design
from anyseq.errors import InvalidArgument, UnsupportedModel
from anyseq.models.declared import scaled_rotary
from anyseq.models.read import read
from anyseq.models.running import is_hugging_face
from anyseq.nn import Transformer
from anyseq.positions import Rotary

_PROBED = 24  # tokens on which both models must agree
_CLOSE = 1e-4  # times the largest output, in float32


def convert(model: Any, tokens: int | None = None) -> Transformer:
    """A Transformer with the design that `read` gives and the weights of `model`, copied; its
    outputs are the model's logits, or its last hidden states if it has no head.

    model: of transformers' own classes, of type bert, gpt2, modernbert, or one of the Llama kind
        (llama, mistral, qwen2, qwen3, gemma3_text), bare or with its language head.
    tokens: the longest sequence, the config's max_position_embeddings unless given.

    Both are run on a few ids; if they differ, it is an error. `with_design` then gives the same
    weights another pattern.
    """
    if not is_hugging_face(model):
        raise InvalidArgument(
            f"model={type(model).__name__}: expected a Hugging Face model, such as LlamaForCausalLM"
        )
    from anyseq.models.weights import FAMILIES  # transformers is slow to import

    kind = model.config.model_type
    if kind not in FAMILIES:
        raise UnsupportedModel(
            f"{type(model).__name__}: the weights of {kind} are not known here; expected one of "
            f"{', '.join(sorted(FAMILIES))}. anyseq.hf.use puts patterns on other models"
        )
    taken = FAMILIES[kind](model)
    design = _design(model, tokens)
    like = model.get_input_embeddings().weight
    made = Transformer(design, **taken.settings, dtype=like.dtype, device=like.device)
    state = made.state_dict()
    if state.keys() != taken.tensors.keys():
        odd = sorted(state.keys() ^ taken.tensors.keys())[0]
        raise UnsupportedModel(f"{type(model).__name__}: it has weights in other places ({odd})")
    room = state.get("position.table")
    if room is not None:  # of a shorter sequence, the first rows
        taken.tensors["position.table"] = taken.tensors["position.table"][: len(room)]
    made.load_state_dict(taken.tensors)
    made.train(model.training)
    _compare(model, made)
    return made


def _design(model: Any, tokens: int | None) -> Design:
    reading = read(model)
    if reading.design is None:
        raise UnsupportedModel(f"{type(model).__name__}: {'; '.join(reading.unknown)}")
    config = model.config
    longest = config.max_position_embeddings
    if tokens is not None and at_least_one("tokens", tokens) > longest:
        raise InvalidArgument(f"tokens={tokens}: the model has positions for {longest}")
    design = reading.design
    layers = [
        replace(layer, position=scaled_rotary(config, number, layer.position))
        if isinstance(layer.position, Rotary)
        else layer
        for number, layer in enumerate(design.layer_cycle[i % len(design.layer_cycle)]
                                       for i in range(design.depth or 1))
    ]  # fmt: skip
    return replace(design.with_layers(layers), tokens=longest if tokens is None else tokens)


def _compare(model: Any, made: Transformer) -> None:
    """Both on random ids, in evaluation mode; an error if they differ."""
    rng = torch.Generator().manual_seed(0)
    n = min(_PROBED, made.design.tokens)
    like = next(made.parameters())
    ids = torch.randint(made.vocab or 1, (2, n), generator=rng).to(like.device)
    training = [module for one in (model, made) for module in one.modules() if module.training]
    try:
        with torch.no_grad():
            outputs = model.eval()(input_ids=ids)
            found = made.eval()(ids).double()
    finally:
        for module in training:
            module.training = True
    wanted = outputs[0].double()
    least = _CLOSE * torch.finfo(like.dtype).eps / torch.finfo(torch.float32).eps
    error = float((found - wanted).abs().max() / wanted.abs().max())
    if not error <= max(least, 1e-9):
        raise UnsupportedModel(
            f"{type(model).__name__}: the Transformer made of it differs by {error:.1e} of its "
            "largest output, so it does something that reading did not find; use anyseq.hf.use "
            "instead"
        )
