"""A position encoding is a frozen description that says in which places of a layer it acts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from inspect import isabstract
from typing import Any

from anyseq.errors import InvalidArgument


class Place(Enum):
    """Where an encoding acts, in the order in which a layer computes."""

    INPUT = "input"  # X + E
    QUERY_KEY = "query_key"  # on q and k
    BIAS = "bias"  # added to the scores
    GAIN = "gain"  # multiplied onto the weights


_KINDS: dict[str, type[Position]] = {}
_NESTED = ("base",)  # arguments that may be positions themselves


@dataclass(frozen=True)
class Position:
    """The base of every description."""

    def __init_subclass__(cls) -> None:
        _KINDS[cls.__name__] = cls

    @property
    def acts_in(self) -> frozenset[Place]:
        """The places where it acts."""
        return frozenset()

    @property
    def natural_length(self) -> int | None:
        """The number of positions it is made for; None if it works for any."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready description; `position_from_dict` reads it back."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"kind": type(self).__name__} | {
            name: value.to_dict() if hasattr(value, "to_dict") else value
            for name, value in values.items()
        }


@dataclass(frozen=True)
class NoPosition(Position):
    """Tokens carry no position."""


def position_from_dict(description: Mapping[str, Any]) -> Position:
    """The position encoding that `to_dict` described."""
    if not isinstance(description, Mapping):
        raise InvalidArgument(f"position {description!r}: expected a dictionary")
    values = dict(description)
    kind = values.pop("kind", None)
    known = {name: cls for name, cls in _KINDS.items() if not isabstract(cls)}
    if not isinstance(kind, str) or kind not in known:
        raise InvalidArgument(f"position kind={kind!r}: expected one of {', '.join(sorted(known))}")
    inner = {
        name: position_from_dict(value) if name in _NESTED and isinstance(value, Mapping) else value
        for name, value in values.items()
    }
    try:
        return known[kind](**inner)
    except TypeError as problem:
        raise InvalidArgument(f"position {kind} cannot be read from {values}: {problem}") from None
