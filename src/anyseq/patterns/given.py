"""A pattern from an existing mask."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from anyseq.errors import InvalidArgument
from anyseq.patterns.blocks import BlockBounds, MaskMod
from anyseq.patterns.pattern import Pattern, PatternLike
from anyseq.patterns.resolve import differs_by_row_or_head, evaluated, named, resolve


@dataclass(frozen=True, eq=False)
class FromMask(Pattern):
    """A bool tensor (n, n), a mask_mod that depends on i and j only, or a BlockMask, as a Pattern.

    The operator also takes a mask_mod that depends on b and h, but has no tiles for it. A mask_mod
    may depend on state that changes, so it is evaluated again at every call: `auto` takes a dense
    backend, "block" finds its blocks anew. A tensor or a BlockMask is read once. Tensors are
    compared by content, callables by identity; only tensors can be written down.
    """

    given: PatternLike

    def __post_init__(self) -> None:
        if isinstance(self.given, (list, tuple)):  # as `to_dict` wrote it
            try:
                mask = torch.tensor(self.given, dtype=torch.bool)
            except (TypeError, ValueError) as problem:
                raise InvalidArgument(f"given: a list that is not a mask: {problem}") from problem
            object.__setattr__(self, "given", mask)
        resolve(self.given, 1)
        if isinstance(self.given, torch.Tensor):
            # Of its own, on the CPU: what others do to theirs must not change a pattern.
            object.__setattr__(self, "given", self.given.detach().cpu().clone())
            shape = tuple(self.given.shape)
            if len(shape) != 2 or shape[0] != shape[1]:
                raise InvalidArgument(f"given: a tensor of shape {shape}; expected (n, n)")
        elif hasattr(self.given, "mask_mod") and len({*self.given.shape[-2:]}) > 1:
            raise InvalidArgument(
                f"given: a BlockMask of shape {tuple(self.given.shape)}; expected as many queries "
                "as keys, as create_block_mask(mask_mod, None, None, n, n) makes it"
            )

    @property
    def natural_length(self) -> int | None:
        if isinstance(self.given, torch.Tensor):
            return len(self.given)
        return int(self.given.shape[-1]) if hasattr(self.given, "mask_mod") else None

    @property
    def lasting(self) -> bool:
        return isinstance(self.given, torch.Tensor) or hasattr(self.given, "mask_mod")

    @property
    def differs(self) -> bool:
        return not isinstance(self.given, torch.Tensor) and differs_by_row_or_head(
            resolve(self.given, 1)
        )

    def at(self, n: int) -> MaskMod:
        if self.natural_length not in (None, n):
            raise InvalidArgument(
                f"given: a mask of shape {tuple(self.given.shape)} for a sequence of {n} tokens"
            )
        mask_mod = resolve(self.given, n)
        if isinstance(self.given, torch.Tensor):
            return mask_mod
        return lambda b, h, i, j: evaluated(mask_mod, b, h, i, j)

    def blocks(self, n: int, size: int) -> BlockBounds:
        """A BlockMask knows which of its blocks are empty, and which are full."""
        block_size = getattr(self.given, "BLOCK_SIZE", None)
        if block_size != (size, size):
            return super().blocks(n, size)
        count = -(-n // size)
        some = self.given.to_dense()[0, 0, :count, :count].bool().cpu()
        return BlockBounds(torch.zeros_like(some), some, torch.zeros_like(some), some)

    @property
    def grain(self) -> int:
        block_size = getattr(self.given, "BLOCK_SIZE", None)
        return block_size[0] if block_size in ((64, 64), (128, 128)) else 64

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FromMask) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def _content(self) -> object:
        return self._digest if isinstance(self.given, torch.Tensor) else id(self.given)

    @cached_property
    def _digest(self) -> tuple[torch.Size, bytes]:
        return self.given.shape, hashlib.sha256(self.given.numpy().tobytes()).digest()

    def to_dict(self) -> dict[str, Any]:
        if not isinstance(self.given, torch.Tensor):
            raise InvalidArgument(
                "a FromMask that holds a callable cannot be written down; use FromMask(mask tensor)"
            )
        return {"kind": "FromMask", "given": self.given.tolist()}


def as_pattern(given: PatternLike) -> Pattern:
    """A Pattern, or its text, as a Pattern; a mask_mod that depends on i and j only, a bool tensor
    (n, n) or a BlockMask wrapped into one."""
    given = named(given)
    return given if isinstance(given, Pattern) else FromMask(given)
