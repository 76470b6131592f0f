"""A "yes", as a proof that can be checked again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from anyseq.base import layers_text
from anyseq.design import Average, Design, LinearAttention
from anyseq.patterns import Blocks
from anyseq.verdicts import verify
from anyseq.verdicts.verify_places import looks_back, looks_different, names_keys, told_apart

KINDS = ("gather", "rigid", "readout", "mean", "fixed width")


@dataclass(frozen=True, eq=False)
class Encoder:
    """What a decoder attends to: a design whose positions are known after `rounds` layers; or, if
    that is None, whose tokens are told apart in `full_layer` of its cycle unless all are equal."""

    design: Design
    rounds: int | None = None
    full_layer: int | None = None

    def verify(self) -> bool:
        """As for a certificate."""
        design = self.design
        if self.rounds is not None:
            return told_apart(design, self.rounds)
        if self.full_layer not in range(len(design.cycle)):
            return False
        number = self.full_layer or 0
        everything = verify.sees_all(design.cycle[number], design.tokens, design.bos)
        return everything and names_keys(design, number)


@dataclass(frozen=True, eq=False)
class Certificate:
    """Why a design is universal, in numbers that `verify` checks with independent code.

    kind: "gather" (positions become known, then every token gathers the sequence), "rigid" (L^p: no
        two places are alike), "mean" (equivariant functions, by one uniform layer), "fixed width"
        (paper B's conditions).
    target: which pairs must be reached, "all" or "causal".
    rounds: layers after which every position is known.
    layers: how many more until all wanted pairs are reached, from `phase` of the cycle on.
    proof, hub: how that was found; if by a hub, the position that attends to all and that all
        attend to.
    full_layer: the pattern in which every token attends to all.
    order: (tokens,) a Hamiltonian path.
    useful: of a readout, the layers of the cycle, counted from 0, whose keys are told apart.
    encoder: what the design, a decoder, also attends to.
    """

    kind: str
    design: Design
    target: str
    layers: int
    phase: int = 0
    proof: str = "sets"
    hub: int | None = None
    rounds: int = 0
    full_layer: int | None = None
    order: np.ndarray | None = None
    useful: tuple[int, ...] = ()
    encoder: Encoder | None = None

    def verify(self) -> bool:
        """Check it again with code that shares nothing with the rules that found it: reach by
        following steps, hubs or sets; positions by random heads that tell them apart; places by
        sums of random functions. (Rigidity that only a search shows is not confirmed.)"""
        if self.kind not in KINDS or self.target not in ("all", "causal") or self.rounds < 0:
            return False
        if self.encoder is not None and not self.encoder.verify():
            return False
        design = self.design
        if self.kind == "mean":
            if self.full_layer not in range(len(design.cycle)):
                return False
            layer = design.layer_cycle[self.full_layer or 0]
            sums = layer.attends or isinstance(layer.mixer, Average | LinearAttention)
            return sums and verify.sees_all(layer.sees, design.tokens, design.bos)
        if self.kind == "readout":
            return self._verify_readout()
        if self.kind == "fixed width" and (
            self.order is None
            or not verify.follows(design.cycle, design.tokens, design.bos, self.order)
        ):
            return False
        if self.kind == "gather" and not told_apart(design, self.rounds):
            return False
        layers = None if design.depth is None else self.rounds
        if self.kind == "rigid" and not looks_different(design, layers):
            return False
        return verify.all_meet(
            design.cycle,
            design.tokens,
            design.bos,
            causal=self.target == "causal",
            layers=self.layers,
            phase=self.phase,
            hub=self.hub if self.proof == "hub" else None,
            by_offsets=self.proof == "offsets",
        )

    def _verify_readout(self) -> bool:
        design, readout = self.design, self.design.readout
        if readout == "all":
            return False
        place = design.tokens - 1 if readout == "last" else int(readout)
        named = all(names_keys(design, one) for one in self.useful)
        past = design.depth is None and all(looks_back(design, one) for one in self.useful)
        if not (named or past):
            return False
        cycle = [
            layer.sees if one in self.useful else Blocks(1)
            for one, layer in enumerate(design.layer_cycle)
        ]
        return verify.reaches_one(
            [*cycle[self.phase :], *cycle[: self.phase]],
            design.tokens,
            design.bos,
            place=place,
            causal=self.target == "causal",
            layers=self.layers,
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
        if self.kind == "readout":
            within = layers_text(self.layers)
            return f"all that the output may depend on reaches it, key by key, within {within}"
        meet = f"all pairs meet within {layers_text(self.layers)}"
        meet += f" (by {self.proof})"
        if self.kind == "rigid":
            after = f" after layer {1 + self.rounds:,}" if self.design.depth is not None else ""
            return f"{meet}, and no two places are alike{after}"
        known = f"positions are known after layer {self.rounds:,}" if self.rounds else ""
        return f"{known}; from there {meet}" if known else meet
