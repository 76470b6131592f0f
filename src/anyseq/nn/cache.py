"""What a causal model keeps while it generates, so that each new token is computed once."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from anyseq.errors import InvalidArgument
from anyseq.nn.past import LastReader

_SPARE = 16  # tokens that a memory has room for, beside twice those it holds


class LayerCache:
    """The tensors of one layer, (batch, ..., tokens, features) each, of at most `capacity` tokens.
    For use without gradients: tokens are written in place.

    last_reader: for how long a key is needed; keys that no later token attends to are forgotten,
        and memory grows with what is left. All are kept without it.
    """

    def __init__(self, capacity: int, last_reader: LastReader | None = None) -> None:
        self.capacity, self.length = capacity, 0
        self._last_reader = last_reader
        self._memory: tuple[torch.Tensor, ...] | None = None
        self._held = torch.zeros(0, dtype=torch.int64)  # the positions of what is kept

    def append(self, *new: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Remember the new tokens; the tensors of all tokens that are kept, these included."""
        first, stop = self.length, self.length + new[0].shape[-2]
        if stop > self.capacity:
            raise InvalidArgument(
                f"cache: {stop} tokens in a cache of {self.capacity}; make a larger one"
            )
        self._check(new)
        before = len(self._held)
        after = before + stop - first
        if self._memory is None:
            self._memory = new
        else:
            if after > self._memory[0].shape[-2]:
                before = self._make_room(stop - first)
                after = before + stop - first
            for memory, part in zip(self._memory, new, strict=True):
                memory[..., before:after, :] = part
        self._held = torch.cat([self._held, torch.arange(first, stop)])
        self.length = stop
        return tuple(memory[..., :after, :] for memory in self._memory)

    @property
    def held(self) -> torch.Tensor | None:
        """(kept,) the positions of what `append` gave; None if nothing is forgotten yet."""
        return None if len(self._held) == self.length else self._held

    @property
    def start(self) -> int | None:
        """The position from which on everything is kept, if nothing before it is."""
        if len(self._held) == 0:
            return 0
        start = int(self._held[0])
        return start if self.length - start == len(self._held) else None

    @property
    def bytes(self) -> int:
        """Of memory that is held."""
        return sum(part.untyped_storage().nbytes() for part in self._memory or ())

    def last(self) -> tuple[torch.Tensor, ...] | None:
        """The tensors of the last token, (..., 1, features) each; None before the first."""
        if self._memory is None:
            return None
        end = len(self._held)
        return tuple(part[..., end - 1 : end, :] for part in self._memory)

    def take(self, rows: torch.Tensor) -> None:
        """The batch becomes these rows of it: those with which a search over several sequences
        continues."""
        if self._memory is not None:
            self._memory = tuple(part.index_select(0, rows) for part in self._memory)

    def _make_room(self, new: int) -> int:
        """Forget what is no longer needed, and make room; returns how many tokens are left."""
        assert self._memory is not None
        alive = torch.arange(len(self._held))
        if self._last_reader is not None:
            alive = (self._last_reader(self._held) >= self.length).nonzero()[:, 0]
        left = len(alive)
        room = min(left + new + max(left, _SPARE), left + self.capacity - self.length)
        index = alive.to(self._memory[0].device)
        larger = []
        for memory in self._memory:
            part = memory.new_empty(*memory.shape[:-2], room, memory.shape[-1])
            part[..., :left, :] = memory.index_select(-2, index)
            larger.append(part)
        self._memory, self._held = tuple(larger), self._held[alive]
        return left

    def _check(self, new: Sequence[torch.Tensor]) -> None:
        if self._memory is None:
            return
        kept = [(part.shape[:-2], part.shape[-1], part.dtype) for part in self._memory]
        if kept != [(part.shape[:-2], part.shape[-1], part.dtype) for part in new]:
            raise InvalidArgument(
                f"cache: holds {tuple(self._memory[0].shape)} of {self._memory[0].dtype}, new "
                f"are {tuple(new[0].shape)} of {new[0].dtype}; expected another number of "
                "tokens only: begin a new cache for another batch"
            )


class Cache:
    """One LayerCache for each of `depth` layers, and what is known about the tokens in them.

    last_readers: for each layer, for how long its keys are needed; all are kept unless given.
    key_mask: (batch, length) bool, False for padding; None if there is none.
    positions: (batch, length) of the tokens; None if they are 0, 1, ... in every row.
    """

    def __init__(
        self, depth: int, capacity: int, last_readers: Sequence[LastReader | None] | None = None
    ) -> None:
        readers = [None] * depth if last_readers is None else last_readers
        self.layers = tuple(LayerCache(capacity, reader) for reader in readers)
        self.key_mask: torch.Tensor | None = None
        self.positions: torch.Tensor | None = None

    @property
    def length(self) -> int:
        """How many tokens the cache has read, a BOS included."""
        return self.layers[0].length

    @property
    def bytes(self) -> int:
        """Of memory that is held, in all layers."""
        return sum(layer.bytes for layer in self.layers)

    def tell(self, key_mask: torch.Tensor | None, positions: torch.Tensor | None) -> None:
        """Arguments about new tokens; if given for some tokens, they must be given for all."""
        before = self.length
        self.key_mask = _together("key_mask", self.key_mask, key_mask, before)
        self.positions = _together("positions", self.positions, positions, before)

    def take(self, rows: torch.Tensor) -> None:
        """The batch becomes these rows of it."""
        for layer in self.layers:
            layer.take(rows)
        for name in ("key_mask", "positions"):
            known = getattr(self, name)
            setattr(self, name, None if known is None else known.index_select(0, rows))


def _together(
    name: str, old: torch.Tensor | None, new: torch.Tensor | None, before: int
) -> torch.Tensor | None:
    if before and (old is None) != (new is None):
        raise InvalidArgument(
            f"{name}: {'not ' * (new is None)}given for these tokens, but for those in the cache "
            f"it was{' not' * (old is None)}; expected the same for both"
        )
    return new if old is None or new is None else torch.cat([old, new], dim=1)
