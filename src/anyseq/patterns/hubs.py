"""Patterns with hubs: a few tokens that attend to all tokens, and all tokens to them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from anyseq.base import at_least_one
from anyseq.errors import InvalidArgument
from anyseq.patterns.algebra import Composite
from anyseq.patterns.blocks import BlockBounds, MaskMod
from anyseq.patterns.offsets import Window
from anyseq.patterns.pattern import Pattern


@dataclass(frozen=True)
class Global(Pattern):
    """The tokens at the given positions attend to all tokens; other tokens attend only to these.

    Negative positions count from the end. Meant for `|`: Window(64) | Global((0,)).
    """

    tokens: tuple[int, ...]

    def __post_init__(self) -> None:
        if isinstance(self.tokens, list):
            object.__setattr__(self, "tokens", tuple(self.tokens))
        if not isinstance(self.tokens, tuple) or not all(
            isinstance(token, int) and not isinstance(token, bool) for token in self.tokens
        ):
            raise InvalidArgument(f"tokens={self.tokens!r}: expected positions, such as (0, 3)")

    def at(self, n: int) -> MaskMod:
        hub = self.hubs(n)
        return lambda b, h, i, j: hub.to(i.device)[i] | hub.to(j.device)[j]

    def blocks(self, n: int, size: int) -> BlockBounds:
        hub = torch.nn.functional.pad(self.hubs(n), (0, -n % size)).view(-1, size)
        some = hub.any(1)
        length = (torch.arange(hub.numel()).view(-1, size) < n).sum(1)
        full = hub.sum(1) == length
        # a block is full where all of its rows, or all of its columns, are hubs
        return BlockBounds.exact(some[:, None] | some[None, :], full[:, None] | full[None, :])

    def hubs(self, n: int) -> torch.Tensor:
        """(n,) bool: which tokens attend to all."""
        for token in self.tokens:
            if not -n <= token < n:
                raise InvalidArgument(f"tokens: position {token} in a sequence of {n} tokens")
        hub = torch.zeros(n, dtype=torch.bool)
        hub[list(self.tokens)] = True
        return hub


@dataclass(frozen=True)
class Ring(Pattern):
    """A window that closes into a ring: A_i = {j : i-j = t mod n, |t| <= radius}."""

    radius: int

    def __post_init__(self) -> None:
        at_least_one("radius", self.radius)

    def at(self, n: int) -> MaskMod:
        return lambda b, h, i, j: self._allows(i - j, n)

    def offsets(self, n: int) -> torch.Tensor:
        return self._allows(torch.arange(1 - n, n), n)

    def _allows(self, offset: torch.Tensor, n: int) -> torch.Tensor:
        distance = offset.abs()  # the other way round it is n - distance
        return (distance <= self.radius) | (distance >= n - self.radius)


@dataclass(frozen=True)
class Star(Composite):
    """STAR(ℓ): token 0 is the hub; every token attends to it and to a ring of ±ℓ. Which token is
    the hub makes no difference to what can be expressed."""

    radius: int

    def split(self) -> tuple[Ring, Global]:
        return Ring(self.radius), Global((0,))


@dataclass(frozen=True)
class Longformer(Composite):
    """A window and global tokens."""

    radius: int
    globals: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        if isinstance(self.globals, list):
            object.__setattr__(self, "globals", tuple(self.globals))
        super().__post_init__()

    def split(self) -> tuple[Window, Global]:
        return Window(self.radius), Global(self.globals)
