"""The question to a construction."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from anyseq.construct.request.error import LP
from anyseq.construct.request.smooth import Smoothness
from anyseq.construct.request.verdicts import Verdicts
from anyseq.design import Design


@dataclass(frozen=True)
class Ask:
    """A tolerance for all f with |f| <= bound that vary as `lipschitz` and `smooth` say, by entry.

    norm: "sup", the largest entry of |f - T|; "lp", (∫ Σ|f - T|^p dx)^(1/p), the sum over the
        entries; "mean", ∫ mean|f - T| dx, the mean over the entries, with p = 1.
    lipschitz: L with |f(x)-f(y)| <= L·max|x-y|; infinite if none is known (see `needs.lipschitz`).
    least_log_steps: use no grid coarser than δ = 2^-least_log_steps.
    smooth: all that is known of how f varies, L included; just L unless given.
    seed: of a method's random numbers. checkpoint: a folder for the state of long work.
    verdicts: what `check` said of the design so far.
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
    verdicts: Verdicts = field(default_factory=Verdicts, compare=False, repr=False)

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
