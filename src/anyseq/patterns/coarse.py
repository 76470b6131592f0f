"""A pattern among blocks of tokens."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch

from anyseq.base import at_least_one
from anyseq.errors import InvalidArgument
from anyseq.patterns.blocks import BlockBounds, MaskMod
from anyseq.patterns.pattern import Pattern


@dataclass(frozen=True)
class Coarse(Pattern):
    """i attends to j where, under `pattern`, block i // block attends to block j // block.

    n tokens make ceil(n / block) blocks, the last of which may be shorter.
    """

    block: int
    pattern: Pattern

    def __post_init__(self) -> None:
        at_least_one("block", self.block)
        if not isinstance(self.pattern, Pattern):
            raise InvalidArgument(f"pattern={self.pattern!r}: expected a Pattern")

    def at(self, n: int) -> MaskMod:
        coarse = self.pattern.at(self.count(n))
        return lambda b, h, i, j: coarse(b, h, i // self.block, j // self.block)

    @property
    def grain(self) -> int:
        return self.block if 16 <= self.block <= 128 else 64

    def parts_at(self, n: int) -> tuple[Pattern, ...]:
        return tuple(Coarse(self.block, part) for part in self.pattern.parts_at(self.count(n)))

    def heads(self) -> tuple[Pattern, ...]:
        inner = self.pattern.heads()
        return (self,) if len(inner) == 1 else tuple(Coarse(self.block, part) for part in inner)

    @property
    def natural_length(self) -> int | None:
        inner = self.pattern.natural_length
        return None if inner is None else inner * self.block

    @property
    def lasting(self) -> bool:
        return self.pattern.lasting

    @property
    def differs(self) -> bool:
        return self.pattern.differs

    def blocks(self, n: int, size: int) -> BlockBounds:
        if size % self.block == 0:  # blocks of blocks: what holds of them holds of their tokens
            return self.pattern.blocks(self.count(n), size // self.block)
        if self.block % size == 0:  # parts of a block: each is as its block is
            index = torch.arange(0, n, size) // self.block
            whole = self.pattern.blocks(self.count(n), 1)
            parts = (getattr(whole, field.name) for field in fields(whole))
            return BlockBounds(*(part[index[:, None], index] for part in parts))
        return BlockBounds.unknown(n, size)

    def count(self, n: int) -> int:
        """The number of blocks of n tokens."""
        return -(-n // self.block)
