"""The answer of a method: a recipe, and what it builds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from anyseq.base import Progress
from anyseq.construct.network.stages import Stage
from anyseq.construct.request.ask import Ask
from anyseq.construct.request.error import Term
from anyseq.construct.request.target import Target
from anyseq.construct.tables.fused import Fused
from anyseq.nn import Stack, StackShape


@dataclass(frozen=True)
class Construction:
    """What a recipe builds: the fused form, the network itself as soon as it is wanted, the largest
    |f| that went into it, what was checked on the way, and which layers do what."""

    fused: Fused
    model: Callable[[], Stack]
    largest: float
    checked: Mapping[str, str] = field(default_factory=dict)
    stages: tuple[Stage, ...] = ()


class Recipe(Protocol):
    """One method's answer: everything about the network but its numbers."""

    @property
    def method(self) -> str:
        """The method's name."""

    @property
    def ask(self) -> Ask:
        """The question."""

    @property
    def log_steps(self) -> int:
        """k, where δ = 2^-k; 0 if there is no grid."""

    @property
    def shape(self) -> StackShape:
        """The sizes of the network."""

    @property
    def cells(self) -> int:
        """How many values of f the network holds."""

    @property
    def id_bits(self) -> int | None:
        """The bits that its largest id needs, or None if it has no ids."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about the network for the user, a line each."""

    @property
    def terms(self) -> tuple[Term, ...]:
        """The proved error, itemised; none if nothing is proved."""

    @property
    def pointwise(self) -> float:
        """A proved bound for every entry of |f - T| at every input that the fused form covers."""

    @property
    def exceptional(self) -> float:
        """The measure of the inputs where the network is not a good approximation."""

    def build(self, target: Target, progress: Progress) -> Construction:
        """The network for f."""
