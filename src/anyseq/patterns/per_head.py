"""Different patterns in different heads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import lcm
from operator import or_
from typing import Any

import torch

from anyseq.errors import InvalidArgument
from anyseq.patterns.blocks import MaskMod
from anyseq.patterns.given import as_pattern
from anyseq.patterns.pattern import Pattern, PatternLike


@dataclass(frozen=True, init=False)
class PerHead(Pattern):
    """Head h uses pattern h mod k: MULTIHEAD. `mask`, `edges` and `sparsity` are those of the
    union, which is what the layer as a whole attends to; `block_mask` needs the number of heads."""

    parts: tuple[Pattern, ...]

    def __init__(self, *parts: PatternLike) -> None:
        if not parts:
            raise InvalidArgument("parts: expected one or more Patterns")
        object.__setattr__(self, "parts", tuple(as_pattern(part) for part in parts))

    @property
    def prefix_stable(self) -> bool:
        return all(part.prefix_stable for part in self.parts)

    def heads(self) -> tuple[Pattern, ...]:
        inner = [part.heads() for part in self.parts]
        period = lcm(len(inner), *map(len, inner))
        chosen = (inner[head % len(inner)] for head in range(period))
        return tuple(part[head % len(part)] for head, part in enumerate(chosen))

    @property
    def natural_length(self) -> int | None:
        return next((p.natural_length for p in self.parts if p.natural_length), None)

    @property
    def lasting(self) -> bool:
        return all(part.lasting for part in self.parts)

    @property
    def differs(self) -> bool:
        return any(part.differs for part in self.parts)

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> PerHead:
        return cls(*values["parts"])

    def at(self, n: int) -> MaskMod:
        mask_mods = [part.at(n) for part in self.parts]

        def mask_mod(
            b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor
        ) -> torch.Tensor:
            turn = h % len(mask_mods)
            return reduce(or_, ((turn == k) & mod(b, h, i, j) for k, mod in enumerate(mask_mods)))

        return mask_mod
