"""Patterns made of patterns: `|`, `&` and `~`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

import torch

from anyseq.errors import InvalidArgument
from anyseq.patterns.pattern import MaskMod, Pattern

_Combine = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class _Combination(Pattern):
    parts: tuple[Pattern, ...]

    def __post_init__(self) -> None:
        if not self.parts or not all(isinstance(part, Pattern) for part in self.parts):
            raise InvalidArgument(f"parts={self.parts!r}: expected one or more Patterns")

    @property
    def prefix_stable(self) -> bool:
        return all(part.prefix_stable for part in self.parts)

    def _combined(self, n: int, combine: _Combine) -> MaskMod:
        mask_mods = [part.at(n) for part in self.parts]
        return lambda b, h, i, j: reduce(combine, (mod(b, h, i, j) for mod in mask_mods))


@dataclass(frozen=True)
class Union(_Combination):
    """i looks at j where any part says so."""

    def at(self, n: int) -> MaskMod:
        return self._combined(n, or_)


@dataclass(frozen=True)
class Intersection(_Combination):
    """i looks at j where every part says so."""

    def at(self, n: int) -> MaskMod:
        return self._combined(n, and_)


@dataclass(frozen=True)
class Complement(Pattern):
    """i looks at j where the part says no."""

    part: Pattern

    def __post_init__(self) -> None:
        if not isinstance(self.part, Pattern):
            raise InvalidArgument(f"part={self.part!r}: expected a Pattern")

    def at(self, n: int) -> MaskMod:
        mask_mod = self.part.at(n)
        return lambda b, h, i, j: ~mask_mod(b, h, i, j)
