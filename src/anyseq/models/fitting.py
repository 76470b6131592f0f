"""What a torch module takes, found by trying: the number of features, the length, numbers or
ids."""

from __future__ import annotations

from itertools import islice
from math import prod
from typing import Any

import torch

from anyseq.base import generator, uniform
from anyseq.design import USUAL_TOKENS
from anyseq.errors import InvalidArgument
from anyseq.models.function import Function, affine_map

_TRIED = 12  # sizes of weights, for features and for lengths
_LONGEST = 256


def fitted(
    name: str, module: torch.nn.Module, features: int | None, tokens: int | None
) -> Function:
    """The module as a function of the first kind of input that it takes.

    Numbers (batch, tokens, features), with as many features as its parts say; ids, if it has
    embeddings: what its embedding makes of them is replaced by numbers under a fixed random affine
    map; numbers again, with other sizes of its weights as features. tokens: 16 unless given, or the
    first size of its weights for which it runs.
    """
    sizes = _sizes(module)
    guesses = [features] if features else list(dict.fromkeys([features_of(module), *sizes]))
    asked = tokens or USUAL_TOKENS
    found, problem = _first(name, module, guesses, asked)
    if found is not None:
        return found
    for length in sizes:
        found, _ = _first(name, module, guesses, length) if length <= _LONGEST else (None, None)
        if found is not None and tokens is None:
            return found
        if found is not None:
            raise InvalidArgument(
                f"tokens={tokens}: {name} cannot be run on so many; give tokens={length}"
            ) from problem
    raise InvalidArgument(
        f"{problem}; give a module that maps floats (batch, tokens, features) to (batch, tokens, "
        "anything), and whose attribute `features` says how many"
    ) from problem


def _first(
    name: str, module: torch.nn.Module, guesses: list[int], tokens: int
) -> tuple[Function | None, InvalidArgument | None]:
    """The first way that works for so many tokens; or what was wrong with the likeliest one."""
    ways = [Function(name, module, module, features, tokens) for features in guesses]
    if any(isinstance(part, torch.nn.Embedding) for part in module.modules()):
        ways.insert(1, Function(name, module, _ReadsIds(module), 1, tokens, True))
    problems = []
    for way in ways:
        try:
            way(uniform(2, tokens, way.features, rng=generator(0)))
        except InvalidArgument as problem:
            problems.append(problem)
        else:
            return way, None
    return None, problems[0]


class _ReadsIds:
    """A module that takes ids (batch, tokens), run on numbers (batch, tokens, 1)."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module

    def __call__(self, x: torch.Tensor) -> Any:
        parts = [part for part in self._module.modules() if isinstance(part, torch.nn.Embedding)]
        # 1, since 0 is often padding; and the same everywhere, so that ids are not positions
        ids = torch.ones(x.shape[:2], dtype=torch.int64)
        met = []

        def numbers_instead(part: Any, args: Any, out: torch.Tensor) -> Any:
            if not torch.equal(args[0], ids):
                return out
            met.append(part)
            return affine_map(1, part.embedding_dim)(x).to(out)

        hooks = [part.register_forward_hook(numbers_instead) for part in parts]
        try:
            out = self._module(ids)
        finally:
            for hook in hooks:
                hook.remove()
        if len(met) != 1:
            raise InvalidArgument(f"{len(met)} embeddings read the ids; expected one")
        return out


def _sizes(module: torch.nn.Module) -> list[int]:
    """The first few different sizes of its weights and buffers, any of which may be a number of
    features or of tokens."""
    tensors = (*module.parameters(), *module.buffers())
    return list(islice(dict.fromkeys(size for one in tensors for size in one.shape), _TRIED))


def features_of(module: torch.nn.Module) -> int:
    """How many features a module takes: what it says itself, or the first of its parts that does; a
    norm gives it by its shape. 1 if none does."""
    for part in module.modules():
        for name in ("features", "in_features", "dim", "d_model", "embed_dim", "input_size"):
            value = getattr(part, name, None)
            if isinstance(value, int) and not isinstance(value, bool):
                return value
        if isinstance(part, torch.nn.LayerNorm | torch.nn.RMSNorm):
            return prod(part.normalized_shape)
    return 1
