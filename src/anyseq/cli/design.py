"""How a design is described on the command line."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

from cyclopts import Parameter

from anyseq.design import Design
from anyseq.patterns import Full, parse_pattern
from anyseq.positions import parse_position


@dataclass(frozen=True)
class Described:
    """Who sees whom, and what tokens know of where they are.

    Parameters
    ----------
    pattern
        Who sees whom, such as "window(64)|global(0)"; several are taken by the layers in turn.
    position
        none, absolute, sinusoidal, rope, alibi, t5, relative, shaw, urpe,
        urpe(rope).
    depth
        The number of layers; any, unless given.
    bos
        The model prepends a token of its own.
    sinks
        Heads have a learned sink.
    prob_map
        softmax, hardmax, sparsemax, entmax15 or topk(8).
    """

    pattern: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = ()
    position: str = "absolute"
    depth: int | None = None
    bos: bool = False
    sinks: bool = False
    prob_map: str = "softmax"

    def at(self, tokens: int, *, feedforward: bool = True, final_norm: str | None = None) -> Design:
        """The design, for so many tokens."""
        return Design(
            tokens,
            tuple(map(parse_pattern, self.pattern)) if self.pattern else Full(),
            parse_position(self.position),
            prob_map=self.prob_map,
            depth=self.depth,
            bos=self.bos,
            sinks=self.sinks,
            feedforward=feedforward,
            final_norm=final_norm,
        )

    def given(self) -> list[str]:
        """The options that say something."""
        return [
            "--" + field.name.replace("_", "-")
            for field in fields(self)
            if getattr(self, field.name) != field.default
        ]


Options = Annotated[Described, Parameter(name="*")]
"""A parameter of a command whose fields are options of their own."""

DENSE = Described()
