"""One frozen object for everything that decides expressivity, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from anyseq.base import at_least_one, one_of
from anyseq.errors import InvalidArgument
from anyseq.patterns import Full, Pattern, PatternLike, as_pattern, pattern_from_dict
from anyseq.positions import Absolute, Position, position_from_dict
from anyseq.probability import ProbMap, prob_map_from_dict, resolve_prob_map

_NORMS = ("layernorm", "rmsnorm")

USUAL_TOKENS = 16
"""The length for which models are looked at, unless one is given."""


@dataclass(frozen=True)
class Design:
    """An attention design, whatever its weights.

    tokens: the caller's tokens; with `bos` the model prepends one learned token at position 0.
    patterns: one Pattern, or a tuple that the layers cycle through; a mask_mod, a bool tensor or a
        BlockMask is taken as FromMask.
    position: where a token is.
    prob_map: scores to weights; a name or an object.
    feedforward: whether blocks have a feed-forward half.
    bos, sinks: a learned first token; a learned score that takes weight and gives no value.
    final_norm: None, "layernorm" or "rmsnorm", without parameters, after the last block.
    depth: the number of blocks; None means any.
    """

    tokens: int
    patterns: PatternLike | tuple[PatternLike, ...] = field(default_factory=Full)
    position: Position = field(default_factory=Absolute)
    prob_map: str | ProbMap = "softmax"
    feedforward: bool = True
    bos: bool = False
    sinks: bool = False
    final_norm: str | None = None
    depth: int | None = None

    def __post_init__(self) -> None:
        at_least_one("tokens", self.tokens)
        given = self.patterns
        if given is None or given == ():
            raise InvalidArgument(f"patterns={given!r}: expected a Pattern or a tuple of Patterns")
        cycle = tuple(map(as_pattern, given if isinstance(given, tuple) else (given,)))
        if not isinstance(self.position, Position):
            raise InvalidArgument(
                f"position={self.position!r}: expected a Position such as Absolute()"
            )
        # One spelling of each design, so that equal designs compare equal.
        object.__setattr__(self, "patterns", _shortest_cycle(cycle))
        object.__setattr__(self, "prob_map", resolve_prob_map(self.prob_map))
        for name in ("feedforward", "bos", "sinks"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidArgument(f"{name}={getattr(self, name)!r}: expected True or False")
        if self.final_norm is not None:
            one_of("final_norm", self.final_norm, _NORMS)
        if self.depth is not None:
            at_least_one("depth", self.depth)

    @property
    def cycle(self) -> tuple[Pattern, ...]:
        """The patterns that layers cycle through."""
        assert isinstance(self.patterns, tuple)
        return self.patterns

    @property
    def size(self) -> int:
        """Positions that patterns see: the tokens, and BOS before them."""
        return self.tokens + self.bos

    @property
    def probability(self) -> ProbMap:
        """The probability map as an object."""
        assert isinstance(self.prob_map, ProbMap)
        return self.prob_map

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready description; `Design.from_dict` reads it back."""
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        plain["patterns"] = [pattern.to_dict() for pattern in self.cycle]
        plain["position"] = self.position.to_dict()
        plain["prob_map"] = self.probability.to_dict()
        return plain

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Design:
        """The design that `to_dict` described."""
        values = dict(description)
        unknown = values.keys() - {item.name for item in fields(cls)}
        if unknown or "tokens" not in values:
            raise InvalidArgument(
                f"design cannot be read: it has the keys {', '.join(sorted(values))}"
            )
        if "patterns" in values:
            values["patterns"] = tuple(pattern_from_dict(part) for part in values["patterns"])
        if "position" in values:
            values["position"] = position_from_dict(values["position"])
        if "prob_map" in values:
            values["prob_map"] = prob_map_from_dict(values["prob_map"])
        return cls(**values)


def _shortest_cycle(layers: tuple[Pattern, ...]) -> tuple[Pattern, ...]:
    """The shortest beginning that gives all layers when it is repeated, a whole number of times."""
    for length in range(1, len(layers) // 2 + 1):
        if len(layers) % length == 0 and layers == layers[:length] * (len(layers) // length):
            return layers[:length]
    return layers
