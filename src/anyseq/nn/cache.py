"""What a causal model remembers while it generates, so that each new token is computed once."""

from __future__ import annotations

import torch

from anyseq.errors import InvalidArgument
from anyseq.patterns import (
    BigBird,
    Coarse,
    Complement,
    Composite,
    FromMask,
    Global,
    Intersection,
    Landmarks,
    LengthFree,
    Pattern,
    PerHead,
    Summary,
    Union,
)


class LayerCache:
    """The tensors of one layer, (..., tokens, features) each, in memory made once for `capacity`
    tokens. For use without gradients: tokens are written in place."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.length = capacity, 0
        self._memory: tuple[torch.Tensor, ...] | None = None

    def append(self, *new: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Remember the new tokens; the tensors of all tokens so far."""
        start, stop = self.length, self.length + new[0].shape[-2]
        if stop > self.capacity:
            raise InvalidArgument(
                f"cache: {stop} tokens in a cache of {self.capacity}; make a larger one"
            )
        if self._memory is not None:
            kept = [(part.shape[:-2], part.shape[-1], part.dtype) for part in self._memory]
            if kept != [(part.shape[:-2], part.shape[-1], part.dtype) for part in new]:
                raise InvalidArgument(
                    f"cache: holds {tuple(self._memory[0].shape)} of {self._memory[0].dtype}, new "
                    f"are {tuple(new[0].shape)} of {new[0].dtype}; expected another number of "
                    "tokens only: begin a new cache for another batch"
                )
        if self._memory is None:
            self._memory = tuple(
                part.new_empty(*part.shape[:-2], self.capacity, part.shape[-1]) for part in new
            )
        for memory, part in zip(self._memory, new, strict=True):
            memory[..., start:stop, :] = part
        self.length = stop
        return tuple(memory[..., :stop, :] for memory in self._memory)

    def last(self) -> tuple[torch.Tensor, ...] | None:
        """The tensors of the last token, (..., 1, features) each; None before the first."""
        if self._memory is None:
            return None
        return tuple(part[..., self.length - 1 : self.length, :] for part in self._memory)


class Cache:
    """One LayerCache for each of `depth` layers."""

    def __init__(self, depth: int, capacity: int) -> None:
        self.layers = tuple(LayerCache(capacity) for _ in range(depth))

    @property
    def length(self) -> int:
        """How many tokens have been seen, a BOS included."""
        return self.layers[0].length


def keeps_its_past(pattern: Pattern) -> bool:
    """Whether the rows of pattern & Causal are sure to keep their edges as n grows.

    Call P stable if, for j <= i, whether i sees j is the same for every n > i. A rule that does not
    mention n is stable; unions, intersections and complements of stable patterns are, entry by
    entry; and blocks of tokens are, if the pattern of the blocks is. `Summary` mentions n for the
    key n-1 only, which for j <= i is the query itself, and that is seen anyway; `Landmarks` leaves
    out only what lies beyond n. Everything else counts as not stable: Ring closes at n, Random
    draws among n, Global may count from the end.
    """
    if isinstance(pattern, Union | Intersection | PerHead):
        return all(map(keeps_its_past, pattern.parts))
    if isinstance(pattern, Composite):
        return all(map(keeps_its_past, pattern.split()))
    if isinstance(pattern, Complement):
        return keeps_its_past(pattern.part)
    if isinstance(pattern, Coarse):
        return keeps_its_past(pattern.pattern)
    if isinstance(pattern, Global):
        return all(token >= 0 for token in pattern.tokens)
    if isinstance(pattern, BigBird):
        return pattern.random == 0
    if isinstance(pattern, FromMask):
        return not isinstance(pattern.given, torch.Tensor)
    return pattern.prefix_stable or isinstance(pattern, LengthFree | Summary | Landmarks)
