"""What is known about a model's attention, and how it is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from textwrap import wrap
from types import MappingProxyType
from typing import Literal

from anyseq.design import Design

Source = Literal["declared", "seen"]

_COLUMNS = 80


@dataclass(frozen=True)
class Fact:
    """One known fact.

    source: "declared" by the config, or by a reader for that family which was checked by hand
        against the model's source; "seen" in a small copy with random weights, and so possibly
        different with other weights.
    layers: the layers it is about, counted from 1; () for the whole model.
    """

    says: str
    source: Source
    layers: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.says


@dataclass(frozen=True)
class Reading:
    """A model, read as a Design.

    subject: the model, or the part of it that the design describes.
    tokens: the length it was read for.
    design: its attention design, with as many layers as it has; of a model with encoder and
        decoder, the encoder's. Every network of that kind, whatever its weights, is token by
        token a function of one of this design. None if a Design cannot have some layer.
    facts: what is known, and how. unknown: what no Design describes, by name.
    unproved: what in the design only bounds the model from above, so that nothing is proved about
        the model.
    contained: a design all of whose networks are networks of the model, where that is a different
        design: layers that attend to keys of earlier layers are idle there.
    parts: the designs of the parts, where there are several ("encoder", "decoder"), as far as they
        can be described.
    """

    subject: str
    tokens: int
    design: Design | None
    facts: tuple[Fact, ...]
    unknown: tuple[str, ...] = ()
    unproved: tuple[str, ...] = ()
    contained: Design | None = None
    parts: Mapping[str, Design] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def assumed(self) -> tuple[str, ...]:
        """The facts that were seen and are not declared."""
        return tuple(fact.says for fact in self.facts if fact.source == "seen")

    def __str__(self) -> str:
        lines = wrap(f"{self.subject}, {self.tokens:,} tokens", _COLUMNS)
        for fact in self.facts:
            lines += _hanging(fact.source, fact.says)
        for head, what in (("unknown", self.unknown), ("unproved", self.unproved)):
            for one in what:
                lines += _hanging(head, one)
        return "\n".join(lines)


def _hanging(head: str, text: str) -> list[str]:
    start = f"  {head:<10}"
    return wrap(text, _COLUMNS, initial_indent=start, subsequent_indent=" " * len(start))
