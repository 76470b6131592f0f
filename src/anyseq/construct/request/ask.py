"""The question to a construction, and the answer of a method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from anyseq.base import Progress
from anyseq.construct.network.stages import Stage
from anyseq.construct.request.error import LP, Term
from anyseq.construct.request.smooth import Smoothness
from anyseq.construct.request.target import Target
from anyseq.construct.tables.fused import Fused
from anyseq.design import Design
from anyseq.nn import Stack, StackShape


@dataclass(frozen=True)
class Ask:
    """A tolerance for all f with |f| <= bound that vary as `lipschitz` and `smooth` say, by entry.

    norm: "sup", the largest entry of |f - T|; "lp", (∫ Σ|f - T|^p dx)^(1/p), the sum over the
        entries; "mean", ∫ mean|f - T| dx, the mean over the entries, with p = 1.
    lipschitz: L with |f(x)-f(y)| <= L·max|x-y|; infinite if none is known (see `needs.lipschitz`).
    least_log_steps: use no grid coarser than δ = 2^-least_log_steps.
    smooth: all that is known of how f varies, L included; just L unless given.
    seed: of a method's random numbers. checkpoint: a folder for the state of long work.
    """

    design: Design
    features: int
    out_features: int
    tol: float
    norm: str
    p: float
    lipschitz: float
    bound: float
    least_log_steps: int = 0
    smooth: Smoothness | None = None
    seed: int = 0
    checkpoint: str | Path | None = None

    @property
    def smoothness(self) -> Smoothness:
        """What bounds the error of a grid."""
        return self.smooth or Smoothness(self.lipschitz)

    @property
    def axes(self) -> int:
        """D = n·d, the dimension of the domain."""
        return self.design.tokens * self.features

    @property
    def entries(self) -> int:
        """The number of output entries of a sequence."""
        return self.design.tokens * self.out_features

    def layers(self, needed: int) -> int:
        """Those of a network that needs so many: a deeper design is filled up by idle ones."""
        return max(needed, self.design.depth or 0)

    @property
    def spread(self) -> float:
        """The norm of an error that is 1 in every entry of every input."""
        return float(self.entries ** (1 / self.p)) if self.norm == LP else 1.0


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
