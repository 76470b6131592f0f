"""Patterns that sparse-attention libraries use among blocks: uneven windows and landmarks."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import reduce
from operator import or_

import torch

from anyseq.base import at_least_one, generator, whole
from anyseq.errors import InvalidArgument
from anyseq.patterns.blocks import BlockBounds, MaskMod
from anyseq.patterns.documents import block_diagonal
from anyseq.patterns.pattern import LengthFree, Pattern


@dataclass(frozen=True)
class UnevenBlocks(LengthFree):
    """Every token attends to its own block; the blocks have the given sizes, and the remaining
    tokens form blocks of the last size."""

    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if isinstance(self.sizes, list):
            object.__setattr__(self, "sizes", tuple(self.sizes))
        if not isinstance(self.sizes, tuple) or not self.sizes:
            raise InvalidArgument(f"sizes={self.sizes!r}: expected whole numbers, such as (3, 5)")
        for size in self.sizes:
            at_least_one("sizes", size)

    def __call__(
        self, b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor
    ) -> torch.Tensor:
        return self._group(i) == self._group(j)

    def blocks(self, n: int, size: int) -> BlockBounds:
        return block_diagonal(self._group(torch.arange(n)), size)

    def _group(self, index: torch.Tensor) -> torch.Tensor:
        """The number of each token's block."""
        *listed, last = self.sizes
        group, start = torch.zeros_like(index), 0
        for size in listed:
            start += size
            group = group + (index >= start)
        return group + ((index - start) // last).clamp(min=0)


@dataclass(frozen=True)
class _Landmarks(Pattern):
    """Runs of tokens that all tokens attend to.

    both: the landmarks also attend to all tokens.
    onward: only tokens from the first of its run on attend to a landmark. Inside a run of several
        tokens the first ones then still attend to those after them.
    """

    both: bool = False
    onward: bool = False

    @abstractmethod
    def runs(self, n: int) -> list[tuple[int, int]]:
        """The first token and the one after the last of each run, within n tokens."""

    def at(self, n: int) -> MaskMod:
        since = self._since(n)

        def mask_mod(
            b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor
        ) -> torch.Tensor:
            seen = i >= since.to(j.device)[j]
            return seen | (since.to(i.device)[i] < n) if self.both else seen

        return mask_mod

    def blocks(self, n: int, size: int) -> BlockBounds:
        since = self._since(n)
        first = torch.arange(0, n, size)
        last = (first + size - 1).clamp(max=n - 1)
        least, most = (
            torch.stack([getattr(part, name)() for part in since.split(size)])
            for name in ("min", "max")
        )
        seen = BlockBounds.exact(last[:, None] >= least, first[:, None] >= most)
        if not self.both:
            return seen
        blocks = len(first)
        some, full = (bound[:, None].expand(blocks, blocks) < n for bound in (least, most))
        return seen | BlockBounds.exact(some, full)

    def _since(self, n: int) -> torch.Tensor:
        """(n,) the first row that attends to each column; n for none."""
        since = torch.full((n,), n)
        for start, stop in self.runs(n):
            since[start:stop] = since[start:stop].clamp(max=start if self.onward else 0)
        return since


@dataclass(frozen=True)
class Landmarks(_Landmarks):
    """Landmarks at given places: `spans` of (first, after the last); what lies beyond the sequence
    is left out."""

    spans: tuple[tuple[int, int], ...] = ((0, 1),)

    def __post_init__(self) -> None:
        object.__setattr__(self, "spans", tuple((start, stop) for start, stop in self.spans))
        for start, stop in self.spans:
            if whole("spans", start) >= whole("spans", stop):
                raise InvalidArgument(f"spans: ({start}, {stop}) ends before it begins")

    def runs(self, n: int) -> list[tuple[int, int]]:
        return [(start, min(stop, n)) for start, stop in self.spans if start < n]


@dataclass(frozen=True)
class PeriodicLandmarks(_Landmarks):
    """Landmarks in every window of `size` tokens: `count` of them, from place `first` on. A last,
    shorter window has them at the same place, or at its end if that is too far."""

    size: int = 4
    first: int = 3
    count: int = 1

    def __post_init__(self) -> None:
        if whole("first", self.first) + at_least_one("count", self.count) > self.size:
            raise InvalidArgument(
                f"first={self.first}, count={self.count}: expected landmarks inside a window of "
                f"size={self.size}"
            )

    def runs(self, n: int) -> list[tuple[int, int]]:
        whole_windows = n - n % self.size
        starts = list(range(self.first, whole_windows, self.size))
        if whole_windows < n:
            starts.append(max(0, min(whole_windows + self.first, n - self.count)))
        return [(start, min(start + self.count, n)) for start in starts]


@dataclass(frozen=True)
class RandomPast(Pattern):
    """Every token attends to `count` of the tokens 0, ..., i, drawn without replacement (all of
    them, if there are no more)."""

    count: int
    seed: int = 0

    def __post_init__(self) -> None:
        at_least_one("count", self.count)
        whole("seed", self.seed)

    def at(self, n: int) -> MaskMod:
        drawn = self._draw(n)

        def mask_mod(
            b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor
        ) -> torch.Tensor:
            return reduce(or_, (column[i] == j for column in drawn.to(i.device).unbind(1)))

        return mask_mod

    def _draw(self, n: int) -> torch.Tensor:
        """(n, count): Floyd's way, as in `draw`, with as many to choose from as a row has."""
        rng = generator(self.seed)
        row = torch.arange(n)
        drawn = torch.empty(n, self.count, dtype=torch.int64)
        for step in range(self.count):
            # rows with fewer than count tokens take them all: 0, 1, ..., then the own again
            last = row + 1 - self.count + step
            number = (torch.rand(n, generator=rng, dtype=torch.float64) * (last + 1)).long()
            repeated = (drawn[:, :step] == number[:, None]).any(1)
            drawn[:, step] = torch.where(repeated, last, number)
            drawn[:, step] = torch.where(row < self.count, row.clamp(max=step), drawn[:, step])
        return drawn
