"""How a design is described on the command line."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from anyseq.errors import InvalidArgument

if TYPE_CHECKING:
    from anyseq.design import Design

_Several = Annotated[
    tuple[str, ...], Parameter(negative=(), show_default=False, consume_multiple=True)
]


@dataclass(frozen=True)
class Described:
    """Which tokens each token attends to, and how positions are encoded.

    Parameters
    ----------
    pattern
        Which tokens each token attends to, such as "window(64) | global(0)"; give several, or
        repeat the option, to alternate layers.
    position
        none, absolute, sinusoidal, rope, alibi, t5, relative, grid(8,8), shaw, urpe,
        urpe(rope); beside --layer that of the input: none, absolute or sinusoidal.
    layer
        One layer in words, such as "causal & window(64), rope, sinks", "recurrence" or
        "convolution(3), no feed-forward"; give several, or repeat the option, to alternate
        layers. Instead of --pattern, --sinks and --prob-map.
    depth
        The number of layers; any, unless given.
    bos
        The model prepends a token of its own; of a config or a model, a BOS token comes first.
    sinks
        Heads have a learned sink.
    prob_map
        softmax, hardmax, sparsemax, entmax15 or topk(8).
    """

    pattern: _Several = ()
    position: str = "absolute"
    layer: _Several = ()
    depth: int | None = None
    bos: bool | None = None
    sinks: bool = False
    prob_map: str = "softmax"

    def at(self, tokens: int, *, feedforward: bool = True, **more: Any) -> Design:
        """The design, for so many tokens; more: what else `Design` takes."""
        from anyseq.design import Design, parse_layer
        from anyseq.patterns import Full, parse_pattern
        from anyseq.positions import parse_position

        if self.layer:
            self._check_alone(feedforward)
            alike: dict[str, Any] = {"layers": [parse_layer(text) for text in self.layer]}
        else:
            alike = {
                "patterns": tuple(map(parse_pattern, self.pattern)) if self.pattern else Full(),
                "prob_map": self.prob_map,
                "sinks": self.sinks,
                "feedforward": feedforward,
            }
        position = parse_position(self.position)
        return Design(
            tokens, position=position, depth=self.depth, bos=bool(self.bos), **alike, **more
        )

    def given(self) -> list[str]:
        """The options that say something."""
        return [
            "--" + field.name.replace("_", "-")
            for field in fields(self)
            if getattr(self, field.name) != field.default
        ]

    def _check_alone(self, feedforward: bool) -> None:
        """That nothing is said for all layers beside what each says for itself."""
        others = [name for name in self.given() if name in ("--pattern", "--sinks", "--prob-map")]
        others += ["--no-feedforward"] * (not feedforward)
        if others:
            raise InvalidArgument(
                f"--layer together with {', '.join(others)}: each layer says that for itself; "
                'expected words such as --layer "causal, rope, sinks, no feed-forward"'
            )


Options = Annotated[Described, Parameter(name="*")]
"""A parameter of a command whose fields are options of their own."""

DENSE = Described()
