"""A user's torch module, read by running a copy of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from anyseq.base import generator, uniform
from anyseq.errors import InvalidArgument, UnsupportedModel
from anyseq.models.as_design import as_design
from anyseq.models.facts import Declared
from anyseq.models.function import Function
from anyseq.models.look import Runs, SeenStack, look
from anyseq.models.one_line import in_one_line
from anyseq.models.reading import Reading
from anyseq.models.running import as_function, in_float64

_MOST_TOKENS = 256
_TURNS = re.compile("[Rr]otary|R[oO]PE|Rope(?![a-z])")
_ROWS = (16, 17)  # of a batch: one of them is not the number of tokens


def read_module(module: torch.nn.Module, tokens: int | None, example: Any) -> Reading:
    """A copy of the module is run, in float64, with random weights."""
    if example is not None:
        return _by_example(module, example)
    function = as_function(module, tokens=tokens)
    length = function.tokens
    if length > _MOST_TOKENS:
        raise InvalidArgument(
            f"tokens={length}: {function.name} is read by running it, on up to {_MOST_TOKENS} "
            "tokens"
        )
    rows = next(count for count in _ROWS if count != length)

    def run(equal: bool) -> Any:
        x = uniform(1, length, function.features, rng=generator(1))
        x = x[:, :1].expand_as(x) if equal else x
        return function(x.expand(rows, -1, -1).clone().requires_grad_())

    return _reading(
        function,
        Runs(function.module, lambda: run(False), lambda: run(True), rows, (length,), {}),
        function.reads_ids,
    )


def _by_example(module: torch.nn.Module, example: Any) -> Reading:
    """The module on the user's example, the same in every row of the batch."""
    copy = in_float64(module)

    def run(equal: bool) -> Any:
        given = _repeated(example, equal)
        with torch.random.fork_rng(devices=[]):
            if isinstance(given, dict):
                return copy(**given)
            return copy(*given) if isinstance(given, tuple) else copy(given)

    function = Function(type(module).__name__, copy, copy, 1, 1)
    runs = Runs(copy, lambda: run(False), lambda: run(True), _ROWS[0], (), {})
    whole = isinstance(example, torch.Tensor) and not example.is_floating_point()
    return _reading(function, runs, ids=whole)


def _repeated(example: Any, equal: bool) -> Any:
    """The first item of a batch, in every row; equal: with the same number everywhere."""
    if isinstance(example, Mapping):
        return {name: _repeated(one, equal) for name, one in example.items()}
    if isinstance(example, tuple | list):
        return tuple(_repeated(one, equal) for one in example)
    if not isinstance(example, torch.Tensor) or example.ndim == 0:
        raise InvalidArgument(
            f"example: {type(example).__name__}; expected a tensor (batch, ...), or a tuple or a "
            "dictionary of tensors"
        )
    first = example[:1].detach().cpu()
    first = first.double() if first.is_floating_point() else first
    first = first.flatten()[0].expand_as(first) if equal else first
    rows = first.expand(_ROWS[0], *first.shape[1:]).clone()
    return rows.requires_grad_() if rows.is_floating_point() else rows


def _reading(function: Function, runs: Runs, ids: bool) -> Reading:
    with function.random_weights(1):
        stacks = looked_at(runs, function.name)
    if not stacks:
        why = "no part was seen to move content between tokens"
        if function.tokens == 1 and runs.lengths:
            why = "there is only one token, so nothing is moved"
        return Reading(function.name, function.tokens, None, (), (why,))
    length = stacks[0].tokens
    described = as_design(stacks[0], Declared(turns=turns(function.module)), length)
    design = described.design
    if design is not None and ids:
        design = replace(design, domain="ids")
    return Reading(
        function.name, length, design, described.facts, described.unknown, described.unproved
    )


def looked_at(runs: Runs, name: str) -> tuple[SeenStack, ...]:
    """What running a model shows; whatever goes wrong in it becomes a one-line error."""
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
    return any(_TURNS.search(type(part).__name__) for part in model.modules())
