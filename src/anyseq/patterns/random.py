"""Random patterns: the same seed gives the same pattern."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch

from anyseq.base import at_least_one, generator, whole
from anyseq.errors import InvalidArgument
from anyseq.patterns.blocks import BlockBounds, MaskMod, bounds_from_columns
from anyseq.patterns.coarse import Coarse
from anyseq.patterns.hubs import Global
from anyseq.patterns.offsets import Window
from anyseq.patterns.pattern import Pattern


@dataclass(frozen=True)
class Random(Pattern):
    """Every token attends to itself and to `count` other tokens, drawn without replacement (all
    others, if there are no more)."""

    count: int
    seed: int = 0

    def __post_init__(self) -> None:
        at_least_one("count", self.count)
        whole("seed", self.seed)

    def at(self, n: int) -> MaskMod:
        others = draw(n, self.count, self.seed)

        def mask_mod(
            b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor
        ) -> torch.Tensor:
            # one comparison per drawn column keeps the memory at that of the result
            seen = i == j
            for column in others.to(i.device).unbind(1):
                seen = seen | (column[i] == j)
            return seen

        return mask_mod

    def blocks(self, n: int, size: int) -> BlockBounds:
        others = draw(n, self.count, self.seed)
        return bounds_from_columns(torch.cat([torch.arange(n)[:, None], others], dim=1), size)


@dataclass(frozen=True)
class BigBird(Pattern):
    """BigBird: blocks of tokens that attend to blocks. A block attends to

    - the `window` blocks around it, itself in the middle (an odd number),
    - the first `globals` blocks, which attend to all blocks themselves,
    - `random` other blocks, drawn without replacement.
    """

    block: int
    window: int = 3
    globals: int = 1
    random: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        at_least_one("block", self.block)
        at_least_one("window", self.window)
        if self.window % 2 == 0:
            raise InvalidArgument(f"window={self.window}: expected an odd number of blocks")
        for name in ("globals", "random", "seed"):
            whole(name, getattr(self, name))

    def at(self, n: int) -> MaskMod:
        allowed = self._allowed(n)
        return lambda b, h, i, j: allowed.to(i.device)[i // self.block, j // self.block]

    def parts_at(self, n: int) -> tuple[Pattern, ...]:
        blocks = -(-n // self.block)
        parts: list[Pattern] = [Window(self.window // 2)]
        if self.globals:
            parts.append(Global(tuple(range(min(self.globals, blocks)))))
        if self.random:
            parts.append(Random(self.random, self.seed))
        return tuple(Coarse(self.block, part) for part in parts)

    def blocks(self, n: int, size: int) -> BlockBounds:
        # A block of that size is empty, or full, if all of our blocks under it are: count them.
        cells = self._allowed(n).long()
        sums = torch.nn.functional.pad(cells.cumsum(0).cumsum(1), (1, 0, 1, 0))
        first = torch.arange(0, n, size) // self.block
        last = (torch.arange(0, n, size) + size - 1).clamp(max=n - 1) // self.block + 1
        count = (
            sums[last[:, None], last] - sums[first[:, None], last]
            - sums[last[:, None], first] + sums[first[:, None], first]
        )  # fmt: skip
        under = (last - first)[:, None] * (last - first)[None, :]
        return BlockBounds.exact(count > 0, count == under)

    def _allowed(self, n: int) -> torch.Tensor:
        """(blocks, blocks) bool: which block attends to which."""
        blocks = -(-n // self.block)
        index = torch.arange(blocks)
        allowed = (index[:, None] - index[None, :]).abs() <= self.window // 2
        allowed[: self.globals] = True
        allowed[:, : self.globals] = True
        if self.random:
            allowed.scatter_(1, draw(blocks, self.random, self.seed), True)
        return allowed


@lru_cache(maxsize=2)
def draw(n: int, count: int, seed: int) -> torch.Tensor:
    """(n, min(count, n-1)) int64: for each i so many different numbers of 0..n-1 other than i.

    Floyd's way, for all rows at once: the t-th number is drawn from the first n-1-count+t+1 others,
    and is replaced by the last of these if it was drawn before.
    """
    others = n - 1
    count = min(count, others)
    rng = generator(seed)
    drawn = torch.empty(n, count, dtype=torch.int64)
    for step in range(count):
        last = others - count + step
        number = torch.randint(last + 1, (n, 1), generator=rng)
        repeated = (drawn[:, :step] == number).any(1, keepdim=True)
        drawn[:, step : step + 1] = torch.where(repeated, last, number)
    return drawn + (drawn >= torch.arange(n)[:, None])  # skip i itself
