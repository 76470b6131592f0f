"""The factored patterns of sparse Transformers: two simple patterns that together reach every
token.

As one pattern they are the union (UNION); `split()` gives the two, to alternate by layer
(SEQUENTIAL) or to share among heads (MULTIHEAD, with PerHead).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from anyseq.base import at_least_one
from anyseq.patterns.algebra import Composite
from anyseq.patterns.blocks import BlockBounds, MaskMod
from anyseq.patterns.documents import block_diagonal
from anyseq.patterns.offsets import Residue, Window
from anyseq.patterns.pattern import LengthFree, Pattern


@dataclass(frozen=True)
class Blocks(LengthFree):
    """Every token attends to its own block: A_i = {j : i // size = j // size}."""

    size: int

    def __post_init__(self) -> None:
        at_least_one("size", self.size)

    def __call__(
        self, b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor
    ) -> torch.Tensor:
        return i // self.size == j // self.size

    def blocks(self, n: int, size: int) -> BlockBounds:
        return block_diagonal(torch.arange(n) // self.size, size)


@dataclass(frozen=True)
class Summary(Pattern):
    """Every token attends to itself and to the last token of every block, the last, shorter block
    included: A_i = {i} and {j : j+1 divisible by size, or j = n-1}."""

    size: int

    def __post_init__(self) -> None:
        at_least_one("size", self.size)

    def at(self, n: int) -> MaskMod:
        return lambda b, h, i, j: (i == j) | (j % self.size == self.size - 1) | (j == n - 1)

    def blocks(self, n: int, size: int) -> BlockBounds:
        last = self.lasts(n)
        count = torch.nn.functional.pad(last, (0, -n % size)).view(-1, size).sum(1)
        blocks = len(count)
        some = (count > 0).expand(blocks, blocks) | torch.eye(blocks, dtype=torch.bool)
        length = torch.full((blocks,), size)
        length[-1] = n - (blocks - 1) * size
        full = (count == length).expand(blocks, blocks)
        # on the diagonal the tokens themselves may fill what is missing: only in blocks of one
        alone = torch.eye(blocks, dtype=torch.bool) & (length == 1)
        return BlockBounds.exact(some, full | alone)

    def lasts(self, n: int) -> torch.Tensor:
        """(n,) bool: which tokens are the last of their block."""
        index = torch.arange(n)
        return (index % self.size == self.size - 1) | (index == n - 1)


@dataclass(frozen=True)
class Strided(Composite):
    """STRIDED(ℓ): Window(ℓ) and the token's residue class mod ℓ. Two layers reach every token."""

    stride: int

    def __post_init__(self) -> None:
        at_least_one("stride", self.stride)

    def split(self) -> tuple[Window, Residue]:
        return Window(self.stride), Residue(self.stride)


@dataclass(frozen=True)
class Fixed(Composite):
    """FIXED(ℓ): the token's own block of ℓ tokens, and the last token of every block."""

    size: int

    def split(self) -> tuple[Blocks, Summary]:
        return Blocks(self.size), Summary(self.size)
