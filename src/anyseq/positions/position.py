"""Position encodings, each with the places in a layer where it acts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, ClassVar

from anyseq.errors import InvalidArgument


class Place(Enum):
    """Where an encoding acts, in the order in which a layer computes."""

    INPUT = "input"  # X + E
    QUERY_KEY = "query_key"  # on q and k
    BIAS = "bias"  # added to the scores
    GAIN = "gain"  # multiplied onto the weights


_KINDS: dict[str, type[Position]] = {}


@dataclass(frozen=True)
class Position:
    """The base of every description."""

    acts_in: ClassVar[frozenset[Place]] = frozenset()

    def __init_subclass__(cls) -> None:
        _KINDS[cls.__name__] = cls

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready description; `position_from_dict` reads it back."""
        return {"kind": type(self).__name__, **asdict(self)}


@dataclass(frozen=True)
class NoPosition(Position):
    """Nothing tells a token where it is."""


@dataclass(frozen=True)
class Absolute(Position):
    """A learned vector per position, added to the input: X + E, with E of shape (tokens, width)."""

    acts_in: ClassVar[frozenset[Place]] = frozenset({Place.INPUT})


def position_from_dict(description: Mapping[str, Any]) -> Position:
    """The position encoding that `to_dict` described."""
    values = dict(description)
    kind = values.pop("kind", None)
    if kind not in _KINDS:
        expected = ", ".join(sorted(_KINDS))
        raise InvalidArgument(f"position kind={kind!r}: expected one of {expected}")
    try:
        return _KINDS[kind](**values)
    except TypeError as problem:
        raise InvalidArgument(f"position {kind} cannot be read from {values}: {problem}") from None
