"""What a planted fault is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

Model = tuple[nn.Module, Any]
"""A model, and what it declares; None for its own config."""


@dataclass(frozen=True)
class Planted:
    """A fault that was put into a model on purpose.

    name: in a few words. family: of the model. planted: what was done, in a sentence.
    build: the model with the fault (True), or the same without it (False).
    rule, layers: under which the audit has to report it; () for the model as a whole.
    allowed: whether output i (of these layers) ought to depend on token j.
    follows: rules under which what truly comes of the fault is reported too.
    thread: a public thread with a fault of this kind.
    tokens: in a sequence that shows it.
    """

    name: str
    family: str
    planted: str
    build: Callable[[bool], Model]
    rule: str
    layers: tuple[int, ...] = ()
    allowed: Callable[[int, int], bool] = lambda i, j: j <= i
    follows: tuple[str, ...] = ()
    thread: str = ""
    tokens: int = 30

    def make(self) -> Model:
        """The faulty model."""
        return self.build(True)

    def healthy(self) -> Model:
        """The same without the fault."""
        return self.build(False)


def causal(i: int, j: int) -> bool:
    """The token itself and all before it."""
    return j <= i


def anywhere(i: int, j: int) -> bool:
    """All tokens."""
    return True


def window(width: int) -> Callable[[int, int], bool]:
    """The last `width` tokens, the token itself among them."""
    return lambda i, j: i - width < j <= i


def chunk(width: int) -> Callable[[int, int], bool]:
    """The earlier tokens of the same chunk."""
    return lambda i, j: j <= i and i // width == j // width


def around(reach: int) -> Callable[[int, int], bool]:
    """Tokens no farther away than `reach`."""
    return lambda i, j: abs(i - j) <= reach
