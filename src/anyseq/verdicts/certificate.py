"""A "yes", as something that can be checked again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from anyseq.patterns import Pattern
from anyseq.verdicts import verify


@dataclass(frozen=True, eq=False)
class Certificate:
    """Why a design is universal, in numbers that `verify` checks with code of its own.

    kind: "gather" (positions are known, every token reaches every token), "rigid" (L^p: nothing but
        the identity keeps the design), "mean" (equivariant functions, by one uniform layer),
        "fixed width" (paper B's conditions).
    patterns, tokens, bos: who sees whom. target: which pairs must meet.
    layers: after how many layers all wanted pairs have met, from `phase` of the cycle on.
    hub: a position that sees all and is seen by all, if that is the proof.
    rounds: layers after which every position is known; colours (tokens,): how the design tells
        positions apart in the end, all different. full_layer: the pattern that sees all.
    order: (tokens,) a Hamiltonian path.
    """

    kind: str
    patterns: tuple[Pattern, ...]
    tokens: int
    bos: bool
    target: str
    layers: int
    phase: int = 0
    proof: str = "sets"
    hub: int | None = None
    rounds: int = 0
    colours: np.ndarray | None = None
    full_layer: int | None = None
    order: np.ndarray | None = None

    def verify(self) -> bool:
        """Check it again, by code that shares nothing with the rules that found it."""
        if self.kind == "mean":
            assert self.full_layer is not None
            return verify.sees_all(self.patterns[self.full_layer], self.tokens, self.bos)
        if self.kind == "fixed width":
            assert self.order is not None
            if not verify.follows(self.patterns, self.tokens, self.bos, self.order):
                return False
        if self.colours is not None and len(np.unique(self.colours)) != self.tokens:
            return False
        return verify.all_meet(
            self.patterns,
            self.tokens,
            self.bos,
            causal=self.target == "causal",
            layers=self.layers,
            phase=self.phase,
            hub=self.hub if self.proof == "hub" else None,
            by_offsets=self.proof == "offsets",
        )

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready summary."""
        return {
            "kind": self.kind,
            "layers": self.layers,
            "rounds": self.rounds,
            "proof": self.proof,
            "hub": self.hub,
        }

    def __str__(self) -> str:
        if self.kind == "mean":
            return "one layer of uniform attention to all tokens, then a feed-forward layer"
        meet = f"all pairs meet within {self.layers:,} layers (by {self.proof})"
        if self.kind == "rigid":
            return f"{meet}, and no two places look alike"
        known = f"after {self.rounds:,} layers positions are known" if self.rounds else ""
        return f"{known}; from there {meet}" if known else meet
