"""What is asked, and what the graph of the design says to it; computed once, when needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch

from anyseq.base import remaining
from anyseq.design import Design, Layer
from anyseq.graph import (
    PATH_SECONDS,
    Path,
    Reach,
    Refinement,
    Symmetry,
    hamiltonian_path,
    reach,
    refine,
    symmetry,
)
from anyseq.patterns import Pattern
from anyseq.positions import ALiBi, Place, base_of
from anyseq.probability import Entmax15, Softmax, Sparsemax, TopK


class Facts:
    """What the graph of a design says, whatever is asked; each computed once, when needed."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self._reach: dict[str, Reach] = {}
        self._symmetry: dict[str, Symmetry] = {}
        self._path: Path | None = None

    def reach(self, wanted: str) -> Reach:
        if wanted not in self._reach:
            self._reach[wanted] = reach(self.design, wanted)
        return self._reach[wanted]

    def symmetry(self, wanted: str) -> Symmetry:
        if wanted not in self._symmetry:
            self._symmetry[wanted] = symmetry(self.design, wanted)
        return self._symmetry[wanted]

    def changed(self, design: Design) -> Facts:
        """The facts of another design, with what does not change: who reaches whom is a matter of
        the patterns alone."""
        facts = Facts(design)
        mine = self.design
        if (design.cycle, design.tokens, design.bos) == (mine.cycle, mine.tokens, mine.bos):
            facts._reach = {
                wanted: replace(found, design=design) for wanted, found in self._reach.items()
            }
        return facts

    @cached_property
    def refinement(self) -> Refinement:
        return refine(self.design)

    @property
    def path(self) -> Path:
        if self._path is not None:
            return self._path
        hurried = remaining() < PATH_SECONDS
        found = hamiltonian_path(self.design)
        if found.exists is not None or not hurried:  # else it may be found another time
            self._path = found
        return found


@dataclass(frozen=True, eq=False)
class Question:
    """The facts of a design, a norm ("sup" or "lp") and a target class ("all", "causal",
    "equivariant")."""

    facts: Facts
    norm: str
    target: str

    @property
    def design(self) -> Design:
        return self.facts.design

    @property
    def wanted(self) -> str:
        """Which pairs of tokens must meet: those of "causal", or "all"."""
        return "causal" if self.target == "causal" else "all"

    @property
    def reach(self) -> Reach:
        return self.facts.reach(self.wanted)

    @property
    def refinement(self) -> Refinement:
        return self.facts.refinement

    @property
    def symmetry(self) -> Symmetry:
        return self.facts.symmetry(self.wanted)

    @property
    def path(self) -> Path:
        return self.facts.path

    @property
    def size(self) -> int:
        """Positions that patterns see: the tokens, and BOS."""
        return self.design.size

    @cached_property
    def is_causal(self) -> bool:
        """Whether no layer lets a token see a later one."""
        return all(_causal(pattern, self.size) for pattern in self.design.cycle)

    @property
    def readout(self) -> int | None:
        """The one token whose output counts; None if all do."""
        readout = self.design.readout
        if readout == "all":
            return None
        return self.design.tokens - 1 if readout == "last" else int(readout)

    @property
    def is_mean_over_ids(self) -> bool:
        """Whether an L^p error is asked for where tokens are ids, which are no cube."""
        return self.norm == "lp" and self.design.domain == "ids"

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers that there are, once through the cycle."""
        return self.design.layer_cycle[: self.design.depth]

    @property
    def knows_positions(self) -> bool:
        """Whether every token is told its own position at the start."""
        return Place.INPUT in self.design.input_position.acts_in

    def is_soft(self, layer: Layer) -> bool:
        """Whether every visible key gets some weight."""
        probability = layer.probability
        return isinstance(probability, Softmax) or (
            isinstance(probability, TopK) and probability.k >= self.size + layer.sinks
        )

    def is_smooth(self, layer: Layer) -> bool:
        """Whether the probability map is continuous, and depends on all scores that are close."""
        return self.is_soft(layer) or isinstance(layer.probability, Sparsemax | Entmax15)

    @cached_property
    def full_layers(self) -> tuple[int, ...]:
        """The layers after the first, counted from 0, in which some head sees everything; each of
        the cycle once."""
        cycle = self.design.layer_cycle
        return tuple(
            layer
            for layer in range(1, len(cycle) + 1)
            if cycle[layer % len(cycle)].attends
            and any(_full(part, self.size) for part in cycle[layer % len(cycle)].sees.heads())
        )

    @property
    def uncovered(self) -> str | None:
        """Why no theorem can say yes of such a design; None if one may."""
        design, layers = self.design, self.layers
        other = next((layer.mixer for layer in layers if not layer.attends), None)
        if other is not None:
            return f"no theorem covers {other} in the place of attention"
        if not any(layer.feedforward for layer in layers):
            return "there are no feed-forward layers, and no theorem covers that"
        if not all(layer.feedforward for layer in layers):
            return "some blocks have no feed-forward layer, and no theorem covers that"
        if design.block_norm is not None:
            return "the theorems speak of blocks without norms"
        if design.final_norm is not None:
            return "no theorem covers a last norm"
        return None


def has_slopes(layer: Layer) -> bool:
    """Whether scores fall with the distance in every head, as ALiBi's."""
    return isinstance(base_of(layer.position), ALiBi)


def has_gain(layer: Layer) -> bool:
    """Whether weights are multiplied by a number for each offset."""
    return Place.GAIN in layer.position.acts_in


def _causal(pattern: Pattern, size: int) -> bool:
    offsets = pattern.offsets(size)
    if offsets is not None:
        return not bool(offsets[: size - 1].any())  # i - j < 0
    zero, index = torch.zeros((), dtype=torch.int64), torch.arange(size - 1)
    if any(bool(part.at(size)(zero, zero, index, index + 1).any()) for part in pattern.heads()):
        return False  # some token sees the next one: no need to look at all pairs
    i, j = pattern.edges(size)
    return bool((j <= i).all())


def _full(pattern: Pattern, size: int) -> bool:
    offsets = pattern.offsets(size)
    if offsets is not None:
        return bool(offsets.all())
    # a row first: a sparse pattern is refuted without looking at all pairs
    zero = torch.zeros((), dtype=torch.int64)
    row = pattern.at(size)(zero, zero, torch.tensor(size // 2), torch.arange(size))
    return bool(row.all()) and bool(pattern.edges(size).shape[1] == size**2)
