"""Probability maps: scores (..., M), -inf where masked, to weights (..., M) that sum to 1.

A row with nothing to attend to (all -inf) gets weights 0 and passes no gradient.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

import torch

from anyseq.errors import InvalidArgument

_KINDS: dict[str, type[ProbMap]] = {}


@dataclass(frozen=True)
class ProbMap(ABC):
    """The base of every probability map."""

    name: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        if cls.name:
            _KINDS[cls.name] = cls

    @abstractmethod
    def __call__(self, scores: torch.Tensor) -> torch.Tensor:
        """Weights (..., M) of scores (..., M)."""

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready description; `prob_map_from_dict` reads it back."""
        return {"kind": self.name, **asdict(self)}


@dataclass(frozen=True)
class Softmax(ProbMap):
    """exp(s_j) / Σ_k exp(s_k)."""

    name: ClassVar[str] = "softmax"

    def __call__(self, scores: torch.Tensor) -> torch.Tensor:
        # softmax, but 0 instead of 0/0 for an empty row, in value and gradient
        weights: torch.Tensor = torch.ops.aten._safe_softmax(scores, -1)
        return weights


@dataclass(frozen=True)
class Hardmax(ProbMap):
    """The limit of softmax(t·s) as t grows: equal weights on the largest scores, 0 elsewhere."""

    name: ClassVar[str] = "hardmax"

    def __call__(self, scores: torch.Tensor) -> torch.Tensor:
        if scores.shape[-1] == 0:
            return scores
        top = scores.amax(-1, keepdim=True)
        winners = ((scores == top) & (top > -torch.inf)).to(scores.dtype)
        weights = winners / winners.sum(-1, keepdim=True).clamp(min=1.0)
        return weights.masked_fill(top.isnan(), torch.nan)  # NaN is nobody's largest score


def names_prob_map(word: str) -> bool:
    """Whether a map has this name, such as "softmax" or "topk"."""
    return word in _KINDS


def prob_map_text(prob_map: ProbMap) -> str:
    """The name that `resolve_prob_map` reads, such as "softmax" or "topk(8)"."""
    values = ", ".join(str(getattr(prob_map, field.name)) for field in fields(prob_map))
    return f"{prob_map.name}({values})" if values else prob_map.name


_SOFTMAX = Softmax()


def resolve_prob_map(prob_map: str | ProbMap) -> ProbMap:
    """The map behind a name, such as "softmax" or "topk(8)", or the object itself."""
    if type(prob_map) is str and prob_map == Softmax.name:  # what nearly every call asks for
        return _SOFTMAX
    if isinstance(prob_map, ProbMap):
        return prob_map
    plain = [name for name, cls in _KINDS.items() if not fields(cls)]
    if isinstance(prob_map, str) and prob_map in plain:
        return _KINDS[prob_map]()
    named = re.fullmatch(r"(\w+)\((\d+)\)", prob_map) if isinstance(prob_map, str) else None
    if named and named[1] in _KINDS and named[1] not in plain:
        (only,) = fields(_KINDS[named[1]])
        return prob_map_from_dict({"kind": named[1], only.name: int(named[2])})
    names = ", ".join(repr(name) for name in plain)
    raise InvalidArgument(
        f"prob_map={prob_map!r}: expected {names}, 'topk(8)', or an object such as TopK(8)"
    )


def prob_map_from_dict(description: Mapping[str, Any]) -> ProbMap:
    """The map that `to_dict` described."""
    values = dict(description)
    kind = values.pop("kind", None)
    if kind not in _KINDS:
        raise InvalidArgument(f"prob_map kind={kind!r}: expected one of {', '.join(_KINDS)}")
    try:
        return _KINDS[kind](**values)
    except TypeError as problem:
        raise InvalidArgument(f"prob_map {kind} cannot be read from {values}: {problem}") from None
