"""One frozen object with everything that decides expressivity, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from anyseq.base import at_least_one, one_of
from anyseq.design.layer import Layer
from anyseq.errors import InvalidArgument
from anyseq.patterns import Full, Pattern, PatternLike, as_pattern, pattern_from_dict
from anyseq.positions import URPE, Absolute, NoPosition, Place, Position, position_from_dict
from anyseq.probability import ProbMap, prob_map_from_dict, resolve_prob_map

FINAL_NORMS = ("layernorm", "rmsnorm", "learned-layernorm", "learned-rmsnorm")
BLOCK_NORMS = ("pre", "post", "sandwich")
DOMAINS = ("cube", "ids")

USUAL_TOKENS = 16
"""The length at which models are read, unless one is given."""

T = TypeVar("T")


@dataclass(frozen=True)
class Design:
    """An attention design, whatever its weights.

    tokens: the caller's tokens; with `bos` the model prepends one learned token at position 0.
    patterns: one Pattern or its text ("causal & window(64)"), or a tuple that the layers cycle
        through; a mask_mod, a bool tensor or a BlockMask is taken as FromMask. Full() unless given.
    position: where a token is.
    prob_map: scores to weights; a name or an object. softmax unless given.
    feedforward: whether blocks have a feed-forward half. True unless given.
    bos, sinks: a learned first token; a learned score that takes weight and gives no value.
    final_norm: None, "layernorm" or "rmsnorm" after the last block, without parameters, or with
        a learned scale "learned-layernorm" or "learned-rmsnorm".
    depth: the number of blocks; None means any.
    layers: the layers one by one, cycled through, where they differ in more than their patterns.
        Then `position` is that of the input only, and `patterns`, `prob_map`, `feedforward` and
        `sinks` are the layers'.
    block_norm: the norms in a block: None, "pre", "post" or "sandwich".
    head: whether a linear map follows at the end.
    domain: tokens are points of a "cube", or "ids" of a vocabulary.
    readout: which outputs count: "all", the "last", or that of the position with this index.

    Layers that are alike but for their patterns are kept in the short form, so that equal designs
    compare equal; `layer_cycle` gives the layers of either form.
    """

    tokens: int
    patterns: PatternLike | tuple[PatternLike, ...] = None
    position: Position = field(default_factory=Absolute)
    prob_map: str | ProbMap | None = None
    feedforward: bool | None = None
    bos: bool = False
    sinks: bool | None = None
    final_norm: str | None = None
    depth: int | None = None
    layers: Sequence[Layer] | None = None
    block_norm: str | None = None
    head: bool = False
    domain: str = "cube"
    readout: str | int = "all"

    def __post_init__(self) -> None:
        at_least_one("tokens", self.tokens)
        if not isinstance(self.position, Position):
            raise InvalidArgument(
                f"position={self.position!r}: expected a Position such as Absolute()"
            )
        # One spelling of each design, so that equal designs compare equal.
        values = self._short() if self.layers is None else self._long()
        for name, value in values.items():
            object.__setattr__(self, name, value)
        for name in ("feedforward", "bos", "sinks", "head"):
            value = getattr(self, name)
            given = value is not None or name in ("bos", "head")
            if given and not isinstance(value, bool):
                raise InvalidArgument(f"{name}={value!r}: expected True or False")
        if self.final_norm is not None:
            one_of("final_norm", self.final_norm, FINAL_NORMS)
        if self.block_norm is not None:
            one_of("block_norm", self.block_norm, BLOCK_NORMS)
        one_of("domain", self.domain, DOMAINS)
        if self.depth is not None:
            at_least_one("depth", self.depth)
        self._check_readout()
        for layer in self.layer_cycle:
            self._check_length(layer.position)

    def _short(self) -> dict[str, Any]:
        """The fields of layers that are alike but for their patterns."""
        given = Full() if self.patterns is None else self.patterns
        if given == ():
            raise InvalidArgument("patterns=(): expected a Pattern or a tuple of Patterns")
        cycle = tuple(map(as_pattern, given if isinstance(given, tuple) else (given,)))
        return {
            "patterns": shortest_cycle(cycle),
            "prob_map": resolve_prob_map("softmax" if self.prob_map is None else self.prob_map),
            "feedforward": True if self.feedforward is None else self.feedforward,
            "sinks": False if self.sinks is None else self.sinks,
        }

    def _long(self) -> dict[str, Any]:
        """The fields of a design given layer by layer, in the short form if that can express it."""
        for name in ("patterns", "prob_map", "feedforward", "sinks"):
            if getattr(self, name) is not None:
                raise InvalidArgument(
                    f"{name}: given beside layers, but each Layer has its own; give it there"
                )
        layers = tuple(self.layers) if isinstance(self.layers, Sequence) else ()
        if not layers or not all(isinstance(layer, Layer) for layer in layers):
            raise InvalidArgument(
                f"layers={self.layers!r}: expected a Layer, or more, in a tuple or a list"
            )
        if not self.position.acts_in <= {Place.INPUT}:
            raise InvalidArgument(
                f"position={self.position!r}: acts inside attention, but beside layers `position` "
                "is that of the input; give this one to the layers"
            )
        first = layers[0]
        alike = all(layer.attends and replace(layer, pattern=first.pattern) == first
                    for layer in layers)  # fmt: skip
        both = _together(self.position, first.position)
        if alike and both is not None:
            return {
                "layers": None,
                "patterns": shortest_cycle(tuple(layer.pattern for layer in layers)),
                "position": both,
                "prob_map": first.prob_map,
                "feedforward": first.feedforward,
                "sinks": first.sinks,
            }
        return {"layers": shortest_cycle(layers)}

    def _check_length(self, position: Position) -> None:
        length = position.natural_length
        if length is not None and self.bos:
            raise InvalidArgument(
                f"bos=True with position={position!r}: all its {length} places belong to "
                "tokens, and none is left for BOS; expected bos=False"
            )
        if length not in (None, self.tokens):
            raise InvalidArgument(
                f"tokens={self.tokens}, but position={position!r} is for {length} exactly"
            )

    def _check_readout(self) -> None:
        if self.readout in ("all", "last"):
            return
        whole = isinstance(self.readout, int) and not isinstance(self.readout, bool)
        if not whole or not 0 <= int(self.readout) < self.tokens:
            raise InvalidArgument(
                f"readout={self.readout!r}: expected 'all', 'last' or a position from 0 to "
                f"{self.tokens - 1}"
            )

    @property
    def layer_cycle(self) -> tuple[Layer, ...]:
        """The layers, once through the cycle, whichever form the design was given in."""
        if self.layers is not None:
            return tuple(self.layers)
        assert isinstance(self.patterns, tuple)
        like = Layer(
            position=_inside(self.position),
            prob_map=self.probability,
            sinks=bool(self.sinks),
            feedforward=bool(self.feedforward),
        )
        return tuple(replace(like, pattern=pattern) for pattern in self.patterns)

    @property
    def input_position(self) -> Position:
        """What is added to the input; NoPosition() if nothing is."""
        return self.position if self.layers is not None else _at_input(self.position)

    @property
    def cycle(self) -> tuple[Pattern, ...]:
        """Which tokens each token gets content from, in each layer of the cycle."""
        if self.layers is not None:
            return tuple(layer.sees for layer in self.layers)
        assert isinstance(self.patterns, tuple)
        return self.patterns

    @property
    def size(self) -> int:
        """Positions that patterns see: the tokens, and BOS before them."""
        return self.tokens + self.bos

    @property
    def probability(self) -> ProbMap:
        """The probability map as an object, in the short form."""
        assert isinstance(self.prob_map, ProbMap)
        return self.prob_map

    def turned(self, phase: int) -> Design:
        """The same with its cycle begun at that layer."""
        cycle = self.layer_cycle
        return self.with_layers((*cycle[phase:], *cycle[:phase]))

    def with_layers(self, layers: Sequence[Layer], position: Position | None = None) -> Design:
        """The same with other layers and, if given, another position at the input."""
        others = {
            name: getattr(self, name)
            for name in ("bos", "final_norm", "depth", "block_norm", "head", "domain", "readout")
        }
        chosen = self.input_position if position is None else position
        return Design(self.tokens, layers=layers, position=chosen, **others)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready description; `Design.from_dict` reads it back. Newer fields are left out
        where they have their defaults."""
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        plain["position"] = self.position.to_dict()
        if self.layers is None:
            plain["patterns"] = [pattern.to_dict() for pattern in self.cycle]
            plain["prob_map"] = self.probability.to_dict()
        else:
            plain["layers"] = [layer.to_dict() for layer in self.layers]
            for name in ("patterns", "prob_map", "feedforward", "sinks"):
                del plain[name]
        for name, usual in _LATER.items():
            if plain[name] == usual:
                del plain[name]
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
        if "layers" in values:
            values["layers"] = tuple(Layer.from_dict(part) for part in values["layers"])
        if "position" in values:
            values["position"] = position_from_dict(values["position"])
        if "prob_map" in values:
            values["prob_map"] = prob_map_from_dict(values["prob_map"])
        return cls(**values)


_LATER = {"layers": None, "block_norm": None, "head": False, "domain": "cube", "readout": "all"}


def _at_input(position: Position) -> Position:
    """What a position of the short form does at the input."""
    base = position.base if isinstance(position, URPE) else position
    return base if Place.INPUT in base.acts_in else NoPosition()


def _inside(position: Position) -> Position:
    """What a position of the short form does inside attention."""
    if _at_input(position) == NoPosition():
        return position
    return URPE(NoPosition(), position.shared) if isinstance(position, URPE) else NoPosition()


def _together(at_input: Position, inside: Position) -> Position | None:
    """The position of the short form that does both, if there is one."""
    if inside == NoPosition():
        return at_input
    if at_input == NoPosition():
        return inside
    if isinstance(inside, URPE) and inside.base == NoPosition():
        return URPE(at_input, inside.shared)
    return None


def shortest_cycle(layers: tuple[T, ...]) -> tuple[T, ...]:
    """The shortest beginning that gives all layers when it is repeated, a whole number of times."""
    for length in range(1, len(layers) // 2 + 1):
        if len(layers) % length == 0 and layers == layers[:length] * (len(layers) // length):
            return layers[:length]
    return layers
