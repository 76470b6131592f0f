"""What a model does, observed from outside: on identical tokens, under permutations, token by
token.

Every test is run with the model's own weights and with random ones. What holds for all of them is
taken as a property of the architecture; what fails once is not one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch

from anyseq.base import at_least_one, generator, uniform
from anyseq.errors import InvalidArgument
from anyseq.models.function import Function
from anyseq.models.rounding import rounding
from anyseq.models.running import as_function

_RANDOM_WEIGHTS = 3
_TOGETHER = 2048  # tokens that are run at once, of as many sequences as that is
_INPUTS = 2
_SYMMETRIES = ("permutations", "reversal", "rotation")


@dataclass(frozen=True, eq=False)
class Probe:
    """What running a model showed.

    classes: (tokens,) two positions have one number if on identical tokens their outputs were equal
        in every trial.
    equivariant: those of "permutations", "reversal" and "rotation" with which the model commuted in
        every trial; () for one token, where they say nothing.
    depends: (tokens, tokens) bool: output k depended on token j in some trial.
    trials: sets of weights tried, its own included.
    rounding: outputs that differ by no more count as equal; the largest of all trials.
    """

    tokens: int
    classes: tuple[int, ...]
    equivariant: tuple[str, ...]
    depends: np.ndarray
    trials: int
    rounding: float


def probe(
    model: torch.nn.Module | Function, tokens: int, features: int | None = None, seed: int = 0
) -> Probe:
    """Run a copy of the model on identical tokens, on permuted ones, and on sequences in which a
    single token changes; see `as_function` for what `what` can be, and `Probe` for the result."""
    at_least_one("tokens", tokens)
    function = model if isinstance(model, Function) else as_function(model, features, tokens)
    together = np.ones((tokens, tokens), dtype=bool)
    depends = np.zeros((tokens, tokens), dtype=bool)
    symmetries = list(_SYMMETRIES if tokens > 1 else ())
    trials, worst = 0, 0.0
    for trial in _weights(function, seed):
        x = uniform(_INPUTS, tokens, function.features, rng=generator(seed + trial))
        size = rounding(function, x)
        _check_sane(function, x, size)
        together &= _equal_on_identical(function, x, size)
        symmetries = [kind for kind in symmetries if _commutes(function, x, kind, size)]
        for one in x:
            depends |= _changes(function, one, size) | _gradients(function, one)
        trials, worst = trials + 1, max(worst, size)
    # The first position that each one equals, since rounding can make equality intransitive.
    classes = tuple(int(row.argmax()) for row in together)
    return Probe(tokens, classes, tuple(symmetries), depends, trials, worst)


def _weights(function: Function, seed: int) -> Iterator[int]:
    """Yields the numbers of trials; meanwhile the function has the weights of that trial."""
    for trial in range(1 + _RANDOM_WEIGHTS * function.has_weights):
        with function.random_weights(seed + trial) if trial else nullcontext():
            yield trial


def _check_sane(function: Function, x: torch.Tensor, size: float) -> None:
    """Equal inputs must give equal outputs, and no sequence may depend on another."""
    out = function(x)
    if not _close(function(x), out, size):
        raise InvalidArgument(f"{function.name} gives different outputs for the same input")
    if not all(_close(function(one[None])[0], two, size) for one, two in zip(x, out, strict=True)):
        raise InvalidArgument(
            f"{function.name}: outputs for one sequence depend on others in the batch; expected "
            "(batch, tokens, features), batch first"
        )


def _equal_on_identical(function: Function, x: torch.Tensor, size: float) -> np.ndarray:
    """(tokens, tokens) bool: which positions have equal outputs where all tokens are equal."""
    out = function(x[:, :1].expand_as(x).contiguous())
    apart = (out[:, :, None] - out[:, None]).abs().amax((0, 3))
    return np.asarray(apart <= size)


def _commutes(function: Function, x: torch.Tensor, kind: str, size: float) -> bool:
    places = torch.arange(x.shape[1])
    orders = {
        "permutations": [torch.randperm(len(places), generator=generator(i)) for i in range(3)],
        "reversal": [places.flip(0)],
        "rotation": [places.roll(1)],
    }
    out = function(x)
    return all(_close(function(x[:, order]), out[:, order], size) for order in orders[kind])


def _changes(function: Function, x: torch.Tensor, size: float) -> np.ndarray:
    """(tokens, tokens) bool [k, j]: output k changes when token j of x (tokens, features) does."""
    found, out = [], function(x[None])
    for chosen in _parts(len(x)):
        moved = x.repeat(len(chosen), 1, 1)
        moved[range(len(chosen)), chosen] = 1 - x[chosen]
        found.append((function(moved) - out).abs().amax(2) > size)  # [j, k]
    return np.asarray(torch.cat(found)).T


def _parts(tokens: int) -> Iterator[torch.Tensor]:
    """Numbers of tokens, so many at a time as there is memory for a sequence each."""
    yield from torch.arange(tokens).split(max(1, _TOGETHER // tokens))


def _gradients(function: Function, x: torch.Tensor) -> np.ndarray:
    """(tokens, tokens) bool [k, j]: the derivative of output k by token j is not exactly 0. It
    finds what is too small to show in a change; where there are no derivatives, or they are NaN as
    those of a softmax with nothing to attend to, it finds nothing."""
    found = []
    for chosen in _parts(len(x)):
        same = x.expand(len(chosen), -1, -1).clone().requires_grad_()
        try:
            own = function(same)[range(len(chosen)), chosen]
            weights = torch.randn(own.shape, generator=generator(0), dtype=torch.float64)
            (gradient,) = torch.autograd.grad((own * weights).sum(), same)
        except (RuntimeError, InvalidArgument):
            return np.zeros((len(x), len(x)), dtype=bool)
        found.append((gradient.abs() > 0).any(2))
    return np.asarray(torch.cat(found))


def _close(one: torch.Tensor, other: torch.Tensor, size: float) -> bool:
    return bool(((one - other).abs() <= size).all())
