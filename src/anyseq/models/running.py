"""Models as functions of sequences: copied, and given numbers where they expect embeddings."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch

from anyseq.base import at_least_one
from anyseq.design import USUAL_TOKENS
from anyseq.errors import InvalidArgument, UnsupportedModel
from anyseq.models.fitting import fitted
from anyseq.models.function import Function, affine_map
from anyseq.models.one_line import in_one_line
from anyseq.nn import Transformer


def as_function(
    model: torch.nn.Module, features: int | None = None, tokens: int | None = None
) -> Function:
    """A model as a function of sequences.

    A torch module takes (batch, tokens, features), or ids; `features` and a length that it takes
    are found by trying, unless given: see `fitted`. A Hugging Face model takes, through
    `inputs_embeds`, the numbers mapped by a fixed random affine map into the space of its
    embeddings; an encoder-decoder is its encoder. Its output is its last hidden state, or its
    logits if it has one vector of them for each token. anyseq.nn.Transformer with `vocab` is probed
    without it.
    """
    name, copy = type(model).__name__, in_float64(model)
    if features is not None:
        at_least_one("features", features)
    if is_hugging_face(model):
        return _embedded(copy, features or 1, tokens or USUAL_TOKENS)
    if isinstance(copy, Transformer):
        if copy.embedding is not None:
            copy.embedding = copy.head = None  # the head reads the embedding
        return Function(name, copy, copy, features or copy.dim, tokens or copy.design.tokens)
    return fitted(name, copy, features, tokens)


def in_float64(model: torch.nn.Module) -> torch.nn.Module:
    """A copy of a model, in evaluation mode, on the CPU."""
    name = type(model).__name__
    if any(parameter.is_meta for parameter in model.parameters()):
        raise InvalidArgument(f"{name} has parameters on the meta device: expected real weights")
    try:
        copy = deepcopy(model).to("cpu", torch.float64).eval()
    except Exception as problem:
        raise UnsupportedModel(
            f"{name} cannot be copied in float64: {type(problem).__name__}: {in_one_line(problem)}"
        ) from problem
    for parameter in copy.parameters():
        # torch fuses layers without gradients into single operations, which tell nothing of how
        # much they compute.
        parameter.requires_grad_(parameter.is_floating_point())
    return copy


def is_hugging_face(model: object) -> bool:
    """Whether it is a transformers model, asked without importing transformers."""
    return any(cls.__name__ == "PreTrainedModel" for cls in type(model).mro())


def _embedded(model: Any, features: int, tokens: int) -> Function:
    name = type(model).__name__
    if model.main_input_name != "input_ids":
        raise UnsupportedModel(
            f"{name} reads {model.main_input_name}; the probe can only make inputs_embeds"
        )
    if model._can_set_experts_implementation():
        model.set_experts_implementation("eager")  # the quicker ones know no float64
    inner = model.get_encoder() if model.config.is_encoder_decoder else model
    try:
        width = inner.get_input_embeddings().weight.shape[1]
    except (AttributeError, NotImplementedError) as problem:
        raise UnsupportedModel(f"{name} has no input embeddings: nothing to probe") from problem
    embed = affine_map(features, width)

    def run(x: torch.Tensor) -> Any:
        embeds = embed(x)
        out = _output(inner(inputs_embeds=embeds))
        if out is None or out.shape[:2] != x.shape[:2]:  # a head that reads the whole sequence
            out = _output(inner.base_model(inputs_embeds=embeds))
        return out

    return Function(name, inner, run, features, tokens)


def _output(answer: Any) -> torch.Tensor | None:
    for key in ("last_hidden_state", "logits", "prediction_logits"):
        found = getattr(answer, key, None)
        if isinstance(found, torch.Tensor):
            return found
    return None
