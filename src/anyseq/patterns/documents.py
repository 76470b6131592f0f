"""Several documents in one sequence: no token attends across a border."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from anyseq.base import at_least_one
from anyseq.errors import InvalidArgument
from anyseq.patterns.blocks import BlockBounds, MaskMod
from anyseq.patterns.pattern import Pattern


@dataclass(frozen=True)
class Documents(Pattern):
    """Documents of the given lengths, one after the other; every token attends to its own document.

    The lengths must add up to the number of tokens.
    """

    lengths: tuple[int, ...]

    def __post_init__(self) -> None:
        if isinstance(self.lengths, list):
            object.__setattr__(self, "lengths", tuple(self.lengths))
        if not isinstance(self.lengths, tuple) or not self.lengths:
            raise InvalidArgument(
                f"lengths={self.lengths!r}: expected whole numbers, such as (3, 5)"
            )
        for length in self.lengths:
            at_least_one("lengths", length)

    @property
    def natural_length(self) -> int:
        return sum(self.lengths)

    def at(self, n: int) -> MaskMod:
        document = self._document(n)
        return lambda b, h, i, j: document.to(i.device)[i] == document.to(j.device)[j]

    def blocks(self, n: int, size: int) -> BlockBounds:
        return block_diagonal(self._document(n), size)

    def _document(self, n: int) -> torch.Tensor:
        """(n,) the number of each token's document."""
        if sum(self.lengths) != n:
            raise InvalidArgument(f"lengths add up to {sum(self.lengths)}, the sequence has {n}")
        return torch.arange(len(self.lengths)).repeat_interleave(torch.tensor(self.lengths))


def block_diagonal(group: torch.Tensor, size: int) -> BlockBounds:
    """Exact bounds of the mask group_i = group_j, for groups (n,) in ascending order."""
    first = group[::size]
    last = torch.cat([group[size - 1 :: size], group[-1:]])[: len(first)]
    overlap = (first[:, None] <= last[None, :]) & (first[None, :] <= last[:, None])
    one = first == last
    same = (first[:, None] == first[None, :]) & one[:, None] & one[None, :]
    return BlockBounds.exact(overlap, same)
