"""A model as a function of sequences of numbers, in float64, with its own or random weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch

from anyseq.base import at_least_one, generator
from anyseq.errors import AnyseqError, InvalidArgument, UnsupportedModel
from anyseq.nn import Transformer
from anyseq.verdicts.witness import features_of

Run = Callable[[torch.Tensor], Any]


class Function:
    """(batch, tokens, features) -> (batch, tokens, anything), float64: a copy of a model, in
    evaluation mode. The model itself is never touched, nor are torch's random numbers."""

    def __init__(self, name: str, module: torch.nn.Module, run: Run, features: int) -> None:
        self.name, self.features = name, features
        self._module, self._run = module, run

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        try:
            with torch.random.fork_rng(devices=[]):
                out = self._run(x)
        except AnyseqError:
            raise
        except Exception as problem:
            # The model is the caller's: whatever goes wrong in it becomes one clear line.
            raise InvalidArgument(
                f"{self.name} could not be run on inputs of shape {tuple(x.shape)}: "
                f"{type(problem).__name__}: {_line(problem)}"
            ) from problem
        if not isinstance(out, torch.Tensor) or out.ndim != 3 or out.shape[:2] != x.shape[:2]:
            came = tuple(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
            raise InvalidArgument(
                f"{self.name} gave {came} for inputs of shape {tuple(x.shape)}: expected "
                "(batch, tokens, anything)"
            )
        if not out.isfinite().all():
            raise InvalidArgument(f"{self.name} gave infinities or NaN")
        return out.double()

    @property
    def has_weights(self) -> bool:
        return any(one.is_floating_point() for one in self._module.parameters())

    @contextmanager
    def random_weights(self, seed: int) -> Iterator[None]:
        """Every floating-point parameter is normal, of a size that keeps activations near 1:
        biases and the scales of norms too, since what starts at 0 or 1 would look like structure.
        Buffers stay as they are. Afterwards the weights are the model's own again."""
        rng = generator(seed)
        parameters = [one for one in self._module.parameters() if one.is_floating_point()]
        own = [parameter.detach().clone() for parameter in parameters]
        try:
            with torch.no_grad():
                for parameter in parameters:
                    fan = min(parameter.shape[-2:]) if parameter.ndim > 1 else 1
                    noise = torch.randn(parameter.shape, generator=rng, dtype=torch.float64)
                    parameter.copy_(noise / max(fan, 1) ** 0.5)
            yield
        finally:
            with torch.no_grad():
                for parameter, value in zip(parameters, own, strict=True):
                    parameter.copy_(value)


def as_function(model: torch.nn.Module, features: int | None = None) -> Function:
    """A model as a function of sequences.

    A torch module takes (batch, tokens, features); `features` is found from its parts unless given.
    A Hugging Face model takes, through `inputs_embeds`, the numbers mapped by a fixed random affine
    map into the space of its embeddings (affine, since a norm would undo a linear one); an
    encoder-decoder is its encoder. Its output is its last hidden state, or its logits if it has
    one vector of them for each token. anyseq.nn.Transformer with `vocab` is probed without it.
    """
    name = type(model).__name__
    if any(parameter.is_meta for parameter in model.parameters()):
        raise InvalidArgument(f"{name} has parameters on the meta device: expected real weights")
    try:
        copy = deepcopy(model).to("cpu", torch.float64).eval()
    except Exception as problem:
        raise UnsupportedModel(
            f"{name} cannot be copied in float64: {type(problem).__name__}: {_line(problem)}"
        ) from problem
    for parameter in copy.parameters():
        # torch fuses layers without gradients into single operations, which tell nothing of how
        # much they compute.
        parameter.requires_grad_(parameter.is_floating_point())
    if is_hugging_face(model):
        return _embedded(copy, 1 if features is None else at_least_one("features", features))
    if isinstance(copy, Transformer):
        copy.embedding = None
    if features is None:
        features = features_of(copy)
    return Function(name, copy, copy, at_least_one("features", features))


def is_hugging_face(model: object) -> bool:
    """Whether it is a transformers model, asked without importing transformers."""
    return any(cls.__name__ == "PreTrainedModel" for cls in type(model).mro())


def _embedded(model: Any, features: int) -> Function:
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
    rng = generator(0)
    offset = torch.randn(width, generator=rng, dtype=torch.float64)
    matrix = torch.randn(features, width, generator=rng, dtype=torch.float64)

    def run(x: torch.Tensor) -> Any:
        embeds = x.double() @ matrix + offset
        out = _output(inner(inputs_embeds=embeds))
        if out is None or out.shape[:2] != x.shape[:2]:  # a head that reads the whole sequence
            out = _output(inner.base_model(inputs_embeds=embeds))
        return out

    return Function(name, inner, run, features)


def _output(answer: Any) -> torch.Tensor | None:
    for key in ("last_hidden_state", "logits", "prediction_logits"):
        found = getattr(answer, key, None)
        if isinstance(found, torch.Tensor):
            return found
    return None


def _line(problem: Exception) -> str:
    text = " ".join(str(problem).split())
    return text if len(text) <= 200 else text[:200] + "..."
