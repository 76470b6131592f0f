"""A pattern says which token may look at which: a small frozen dataclass, usable as a mask_mod."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import fields
from inspect import isabstract
from typing import Any

import torch

from anyseq.base import at_least_one
from anyseq.errors import InvalidArgument

MaskMod = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""(batch, head, query index, key index) -> may attend; tensor operators only, they broadcast."""

_KINDS: dict[str, type[Pattern]] = {}


class Pattern(ABC):
    """The base of every pattern; a subclass is a frozen dataclass that defines `at`.

    Patterns are compared and hashed by content.
    """

    def __init_subclass__(cls) -> None:
        _KINDS[cls.__name__] = cls

    @abstractmethod
    def at(self, n: int) -> MaskMod:
        """The mask_mod for sequences of n tokens."""

    @property
    def prefix_stable(self) -> bool:
        """Rows keep their edges as n grows: what a cache of keys and values needs."""
        return False

    def mask(self, n: int) -> torch.Tensor:
        """(n, n) bool; entry (i, j) says whether token i may look at token j."""
        at_least_one("n", n)
        index = torch.arange(n)
        zero = torch.zeros((), dtype=torch.int64)
        mask = self.at(n)(zero, zero, index[:, None], index[None, :])
        return mask.expand(n, n).clone()

    def edges(self, n: int) -> torch.Tensor:
        """(2, E) int64: the pairs (i, j) with i looking at j, sorted by i, then j."""
        return self.mask(n).nonzero().T.contiguous()

    def sparsity(self, n: int) -> float:
        """The share of pairs that do not look at each other."""
        return 1.0 - self.edges(n).shape[1] / n**2

    def __or__(self, other: Pattern) -> Pattern:
        from anyseq.patterns.algebra import Union

        return Union((self, _as_pattern("|", other)))

    def __and__(self, other: Pattern) -> Pattern:
        from anyseq.patterns.algebra import Intersection

        return Intersection((self, _as_pattern("&", other)))

    def __invert__(self) -> Pattern:
        from anyseq.patterns.algebra import Complement

        return Complement(self)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready description; `pattern_from_dict` reads it back."""
        return {"kind": type(self).__name__} | {
            field.name: _plain(getattr(self, field.name))
            for field in fields(self)  # type: ignore[arg-type]  # every subclass is a dataclass
        }


class LengthFree(Pattern):
    """The base of patterns whose rule does not depend on n: each is itself the mask_mod."""

    @abstractmethod
    def __call__(
        self, b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor
    ) -> torch.Tensor:
        """Whether query i may look at key j, in batch row b and head h."""

    def at(self, n: int) -> MaskMod:
        return self


def pattern_from_dict(description: Mapping[str, Any]) -> Pattern:
    """The pattern that `to_dict` described."""
    values = dict(description)
    kind = values.pop("kind", None)
    known = {name: cls for name, cls in _KINDS.items() if not isabstract(cls)}
    if kind not in known:
        raise InvalidArgument(f"pattern kind={kind!r}: expected one of {', '.join(sorted(known))}")
    try:
        return known[kind](**{name: _rich(value) for name, value in values.items()})
    except TypeError as problem:
        raise InvalidArgument(f"pattern {kind} cannot be read from {values}: {problem}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, Pattern):
        return value.to_dict()
    return [_plain(part) for part in value] if isinstance(value, tuple) else value


def _rich(value: Any) -> Any:
    if isinstance(value, Mapping):
        return pattern_from_dict(value)
    return tuple(_rich(part) for part in value) if isinstance(value, list) else value


def _as_pattern(operator: str, other: object) -> Pattern:
    if not isinstance(other, Pattern):
        raise InvalidArgument(f"pattern {operator} {other!r}: expected a Pattern on both sides")
    return other
