"""Patterns made of patterns: `|`, `&` and `~`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from math import lcm
from operator import and_, or_
from typing import Any, ClassVar, Self

import torch

from anyseq.errors import InvalidArgument
from anyseq.patterns.blocks import BlockBounds, MaskMod
from anyseq.patterns.pattern import Pattern


@dataclass(frozen=True)
class _Combination(Pattern):
    """The base of unions and intersections: parts, and the operator that combines them."""

    parts: tuple[Pattern, ...]
    operator: ClassVar[Callable[[Any, Any], Any]]

    def __post_init__(self) -> None:
        if (
            not isinstance(self.parts, tuple)
            or not self.parts
            or not all(isinstance(part, Pattern) for part in self.parts)
        ):
            raise InvalidArgument(f"parts={self.parts!r}: expected a tuple of one or more Patterns")

    @classmethod
    def of(cls, *patterns: Pattern) -> Self:
        """The combination of patterns; parts of the same kind are flattened, so that many do not
        nest.
        """
        parts = [part.parts if type(part) is cls else (part,) for part in patterns]
        return cls(tuple(chain.from_iterable(parts)))

    @property
    def prefix_stable(self) -> bool:
        return all(part.prefix_stable for part in self.parts)

    def at(self, n: int) -> MaskMod:
        mask_mods = [part.at(n) for part in self.parts]
        combine = type(self).operator
        return lambda b, h, i, j: reduce(combine, (mod(b, h, i, j) for mod in mask_mods))

    def heads(self) -> tuple[Pattern, ...]:
        inner = [part.heads() for part in self.parts]
        period = lcm(*map(len, inner))
        if period == 1:
            return (self,)
        return tuple(
            type(self)(tuple(part[head % len(part)] for part in inner)) for head in range(period)
        )

    @property
    def natural_length(self) -> int | None:
        return next((p.natural_length for p in self.parts if p.natural_length), None)

    @property
    def lasting(self) -> bool:
        return all(part.lasting for part in self.parts)

    @property
    def differs(self) -> bool:
        return any(part.differs for part in self.parts)

    @property
    def grain(self) -> int:
        return min(part.grain for part in self.parts)

    def offsets(self, n: int) -> torch.Tensor | None:
        parts = [part.offsets(n) for part in self.parts]
        return None if any(part is None for part in parts) else reduce(type(self).operator, parts)

    def blocks(self, n: int, size: int) -> BlockBounds:
        if self.offsets(n) is not None:
            return super().blocks(n, size)
        bounds: BlockBounds = reduce(
            type(self).operator, (part.blocks(n, size) for part in self.parts)
        )
        return bounds


@dataclass(frozen=True)
class Union(_Combination):
    """i attends to j where any part allows it."""

    operator: ClassVar[Callable[[Any, Any], Any]] = or_

    def parts_at(self, n: int) -> tuple[Pattern, ...]:
        return self.parts


@dataclass(frozen=True)
class Intersection(_Combination):
    """i attends to j where every part allows it."""

    operator: ClassVar[Callable[[Any, Any], Any]] = and_


@dataclass(frozen=True)
class Complement(Pattern):
    """i attends to j where the part forbids it."""

    part: Pattern

    def __post_init__(self) -> None:
        if not isinstance(self.part, Pattern):
            raise InvalidArgument(f"part={self.part!r}: expected a Pattern")

    def at(self, n: int) -> MaskMod:
        mask_mod = self.part.at(n)
        return lambda b, h, i, j: ~mask_mod(b, h, i, j)

    def heads(self) -> tuple[Pattern, ...]:
        inner = self.part.heads()
        return (self,) if len(inner) == 1 else tuple(Complement(part) for part in inner)

    @property
    def natural_length(self) -> int | None:
        return self.part.natural_length

    @property
    def lasting(self) -> bool:
        return self.part.lasting

    @property
    def differs(self) -> bool:
        return self.part.differs

    @property
    def grain(self) -> int:
        return self.part.grain

    def offsets(self, n: int) -> torch.Tensor | None:
        offsets = self.part.offsets(n)
        return None if offsets is None else ~offsets

    def blocks(self, n: int, size: int) -> BlockBounds:
        return ~self.part.blocks(n, size)


class Composite(Pattern):
    """The base of patterns that are the union of simpler ones: `split()` names them."""

    def __post_init__(self) -> None:
        self.split()  # bad sizes are refused now, not when a mask is asked for

    @abstractmethod
    def split(self) -> tuple[Pattern, ...]:
        """The parts, for alternate layers (a Design's cycle) or for different heads (PerHead)."""

    def parts_at(self, n: int) -> tuple[Pattern, ...]:
        return self.split()

    @property
    def prefix_stable(self) -> bool:
        return Union(self.split()).prefix_stable

    def at(self, n: int) -> MaskMod:
        return Union(self.split()).at(n)

    def offsets(self, n: int) -> torch.Tensor | None:
        return Union(self.split()).offsets(n)

    def blocks(self, n: int, size: int) -> BlockBounds:
        return Union(self.split()).blocks(n, size)
