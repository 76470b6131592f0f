"""A model as a function of sequences of numbers, in float64, with its own or random weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from anyseq.base import generator
from anyseq.errors import AnyseqError, InvalidArgument
from anyseq.models.one_line import in_one_line

Run = Callable[[torch.Tensor], Any]


class Function:
    """(batch, tokens, features) -> (batch, tokens, anything), float64: a copy of a model, in
    evaluation mode. The model itself is never touched, nor are torch's random numbers. Of a tuple,
    as recurrent layers give it, the output is the first. tokens: a length that it takes.
    reads_ids: whether the module takes ids, in whose place numbers are passed on."""

    def __init__(
        self,
        name: str,
        module: torch.nn.Module,
        run: Run,
        features: int,
        tokens: int,
        reads_ids: bool = False,
    ) -> None:
        self.name, self.features, self.tokens = name, features, tokens
        self.reads_ids = reads_ids
        self.module, self._run = module, run

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
                f"{type(problem).__name__}: {in_one_line(problem)}"
            ) from problem
        if isinstance(out, tuple) and out:
            out = out[0]
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
        return any(one.is_floating_point() for one in self.module.parameters())

    def random_weights(self, seed: int) -> AbstractContextManager[None]:
        """The same with random weights: see below."""
        return random_weights(self.module, seed)


@contextmanager
def random_weights(module: torch.nn.Module, seed: int, gain: float = 1.0) -> Iterator[None]:
    """Every floating-point parameter is normal, of a size that keeps activations near 1, times
    `gain`: biases and the scales of norms too, since values that start at 0 or 1 would be mistaken
    for structure. Buffers stay as they are. Afterwards the weights are the model's own again."""
    rng = generator(seed)
    parameters = [one for one in module.parameters() if one.is_floating_point()]
    own = [parameter.detach().clone() for parameter in parameters]
    try:
        with torch.no_grad():
            for parameter in parameters:
                fan = min(parameter.shape[-2:]) if parameter.ndim > 1 else 1
                noise = torch.randn(parameter.shape, generator=rng, dtype=torch.float64)
                parameter.copy_(gain * noise / max(fan, 1) ** 0.5)
        yield
    finally:
        with torch.no_grad():
            for parameter, value in zip(parameters, own, strict=True):
                parameter.copy_(value)


def after_bos(function: Function) -> Function:
    """The same with a first token of its own, whose vector lies outside the cube and whose output
    is dropped."""

    def run(x: torch.Tensor) -> torch.Tensor:
        return function(torch.cat([x.new_full(x[:, :1].shape, -1.0), x], 1))[:, 1:]

    return Function(function.name, function.module, run, function.features, function.tokens - 1)


def affine_map(features: int, width: int) -> Run:
    """A fixed random affine map of numbers (..., features) into embeddings (..., width): affine,
    since a norm would undo a linear one."""
    rng = generator(0)
    offset = torch.randn(width, generator=rng, dtype=torch.float64)
    matrix = torch.randn(features, width, generator=rng, dtype=torch.float64)
    return lambda x: x.double() @ matrix + offset
