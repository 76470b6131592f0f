"""One layer of a design: which tokens are mixed, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from anyseq.design.mixers import ATTENTION, Mixer, mixer_from_dict, resolve_mixer
from anyseq.errors import InvalidArgument
from anyseq.patterns import Causal, Full, Pattern, PatternLike, as_pattern, pattern_from_dict
from anyseq.positions import NoPosition, Place, Position, position_from_dict
from anyseq.probability import ProbMap, Softmax, prob_map_from_dict, resolve_prob_map


@dataclass(frozen=True)
class Layer:
    """A block: a half that mixes tokens, and a feed-forward half.

    pattern: which tokens a token attends to: a Pattern or its text; a mask_mod, a bool tensor or a
        BlockMask is taken as FromMask.
    position: how attention encodes where a token is. Positions at the input are the design's.
    prob_map: scores to weights; a name or an object.
    sinks: a learned score that takes weight and gives no value.
    mixer: "attention", or what replaces it: Convolution(width), Recurrence(),
        LinearAttention(), Average(), Bilinear(). These have no position, map or sinks.
    feedforward: whether the block has a feed-forward half.
    """

    pattern: PatternLike = field(default_factory=Full)
    position: Position = field(default_factory=NoPosition)
    prob_map: str | ProbMap = "softmax"
    sinks: bool = False
    mixer: str | Mixer = ATTENTION
    feedforward: bool = True

    def __post_init__(self) -> None:
        if self.pattern is None:
            raise InvalidArgument("pattern=None: expected a Pattern")
        object.__setattr__(self, "pattern", as_pattern(self.pattern))
        object.__setattr__(self, "prob_map", resolve_prob_map(self.prob_map))
        object.__setattr__(self, "mixer", resolve_mixer(self.mixer))
        for name in ("sinks", "feedforward"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidArgument(f"{name}={getattr(self, name)!r}: expected True or False")
        if not isinstance(self.position, Position):
            raise InvalidArgument(
                f"position={self.position!r}: expected a Position such as Rotary()"
            )
        if Place.INPUT in self.position.acts_in:
            raise InvalidArgument(
                f"position={self.position!r}: acts on the input, before the first layer; give it "
                "to the Design"
            )
        if isinstance(self.mixer, Mixer):
            self._check_mixer(self.mixer)

    def _check_mixer(self, mixer: Mixer) -> None:
        usual = _USUAL
        parts = ["position", "prob_map", "sinks"] + ["pattern"] * (not mixer.takes_pattern)
        for name in parts:
            if getattr(self, name) != getattr(usual, name):
                raise InvalidArgument(
                    f"{name}={getattr(self, name)!r} with mixer={mixer!r}: that is for attention; "
                    f"expected no {name}"
                )

    @property
    def attends(self) -> bool:
        """Whether it is attention."""
        return self.mixer == ATTENTION

    @property
    def sees(self) -> Pattern:
        """Which tokens a token gets content from."""
        assert isinstance(self.pattern, Pattern)
        return self.mixer.sees(self.pattern) if isinstance(self.mixer, Mixer) else self.pattern

    @property
    def probability(self) -> ProbMap:
        """The probability map as an object."""
        assert isinstance(self.prob_map, ProbMap)
        return self.prob_map

    def of_the_past(self) -> Layer:
        """The same in a causal model: token i gets content from tokens 0, ..., i only."""
        mixer = self.mixer.of_the_past() if isinstance(self.mixer, Mixer) else self.mixer
        takes = not isinstance(mixer, Mixer) or mixer.takes_pattern
        pattern = self.sees & Causal() if takes else self.pattern
        return replace(self, mixer=mixer, pattern=pattern)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready description; `Layer.from_dict` reads it back. Fields with their defaults are
        left out."""
        usual, mixer = _USUAL, self.mixer
        assert isinstance(self.pattern, Pattern)
        plain = {
            "pattern": self.pattern.to_dict(),
            "position": self.position.to_dict(),
            "prob_map": self.probability.to_dict(),
            "sinks": self.sinks,
            "mixer": mixer.to_dict() if isinstance(mixer, Mixer) else mixer,
            "feedforward": self.feedforward,
        }
        return {name: plain[name] for name in plain if getattr(self, name) != getattr(usual, name)}

    @classmethod
    def from_dict(cls, description: Any) -> Layer:
        """The layer that `to_dict` described."""
        if not isinstance(description, Mapping):
            raise InvalidArgument(f"layer {description!r}: expected a dictionary")
        values = dict(description)
        unknown = values.keys() - {item.name for item in fields(cls)}
        if unknown:
            raise InvalidArgument(
                f"layer cannot be read: it has the keys {', '.join(sorted(values))}"
            )
        for name, read in (
            ("pattern", pattern_from_dict),
            ("position", position_from_dict),
            ("prob_map", prob_map_from_dict),
            ("mixer", mixer_from_dict),
        ):
            if name in values:
                values[name] = read(values[name])
        return cls(**values)


_USUAL = Layer(prob_map=Softmax())
