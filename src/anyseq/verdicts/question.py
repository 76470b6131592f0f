"""A question, and what the graph of the design answers; computed once, when needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

import numpy as np
import torch

from anyseq.base import remaining
from anyseq.design import (
    Average,
    Bilinear,
    Convolution,
    Design,
    Layer,
    LinearAttention,
    Mixer,
    Recurrence,
)
from anyseq.graph import (
    PATH_SECONDS,
    Path,
    Reach,
    Refinement,
    Symmetry,
    hamiltonian_path,
    hears,
    keys_seen,
    reach,
    refine,
    symmetry,
)
from anyseq.patterns import Pattern
from anyseq.positions import ALiBi, GridBias, Place, RelativeBias, Rotary, base_of
from anyseq.probability import Entmax15, Softmax, Sparsemax, TopK


class Facts:
    """Facts from the graph of a design, for any question; each computed once, when needed."""

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
        """The facts of another design, sharing what does not change: reach depends on the patterns
        alone."""
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
        """Which pairs of tokens must be reached: those of "causal", or "all"."""
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
        """Whether no layer lets a token attend to a later one."""
        return all(_causal(pattern, self.size) for pattern in self.design.cycle)

    @property
    def readout(self) -> int | None:
        """The one token whose output counts; None if all do."""
        readout = self.design.readout
        if readout == "all":
            return None
        return self.design.tokens - 1 if readout == "last" else int(readout)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers within the depth, once through the cycle."""
        return self.design.layer_cycle[: self.design.depth]

    @property
    def unheard(self) -> int | None:
        """A token on which the one output that is read may depend, and which does not reach it."""
        missing = np.flatnonzero(~self._heard(self.design.cycle, self.design.depth))
        return int(missing[-1]) if len(missing) else None

    def layers_to_readout(self, useful: Sequence[bool]) -> int | None:
        """Layers after the first block in which all that the one output may depend on reaches it,
        through those of the cycle that are useful alone: no more than there are; None if it does
        not."""
        phase, depth = 1 % len(useful), self.design.depth
        both = list(zip(self.design.cycle, useful, strict=True))
        cycle = [one if use else None for one, use in (*both[phase:], *both[:phase])]
        if not self._heard(cycle, None if depth is None else depth - 1).all():
            return None
        if depth is not None:
            return depth - 1
        return next(times for times in count(0, len(cycle)) if self._heard(cycle, times).all())

    def _heard(self, cycle: Sequence[Pattern | None], layers: int | None) -> np.ndarray:
        """(tokens,) bool: what reaches the one output, of the tokens on which it may depend."""
        place, bos = self.readout, int(self.design.bos)
        assert place is not None
        heard = hears(cycle, self.size, place + bos, layers)[bos:]
        return heard[: place + 1] if self.wanted == "causal" else heard

    @property
    def knows_positions(self) -> bool:
        """Whether every token is given its own position at the start."""
        return Place.INPUT in self.design.input_position.acts_in

    def is_soft(self, layer: Layer) -> bool:
        """Whether every visible key gets some weight."""
        probability = layer.probability
        return isinstance(probability, Softmax) or (
            isinstance(probability, TopK) and probability.k >= self.size + layer.sinks
        )

    def is_smooth(self, layer: Layer) -> bool:
        """Whether the layer mixes continuously: small changes of what it reads change little."""
        smooth = isinstance(layer.probability, Sparsemax | Entmax15)
        return not layer.attends or self.is_soft(layer) or smooth

    @cached_property
    def ties_matter(self) -> bool:
        """Whether a map may jump where scores tie, in blocks whose norms break ties: a norm divides
        each token by a number that depends on its content."""
        rough = not all(map(self.is_smooth, self.layers))
        return rough and (self.design.block_norm is not None)

    @cached_property
    def full_layers(self) -> tuple[int, ...]:
        """The layers after the first, counted from 0, in which some head can average over all
        tokens, nearly: each of the cycle once."""
        cycle = self.design.layer_cycle
        return tuple(
            layer
            for layer in range(1, len(cycle) + 1)
            if self._averages(cycle[layer % len(cycle)])
            and any(_full(part, self.size) for part in cycle[layer % len(cycle)].sees.heads())
        )

    def names_keys(self, layer: Layer) -> bool:
        """Whether a token can distinguish the keys that it attends to: because keys have positions,
        or each key of a row has its own label."""
        base = base_of(layer.position)
        if self.knows_positions or isinstance(layer.mixer, Convolution | Recurrence | Bilinear):
            return True
        if not layer.attends:
            return False
        if isinstance(base, ALiBi):
            labelled = has_gain(layer) or _causal(layer.sees, self.size)
            return labelled and self.is_soft(layer)
        return has_gain(layer) or isinstance(base, Rotary | RelativeBias | GridBias)

    def is_window_of_the_past(self, layer: Layer) -> bool:
        """Whether a token attends to itself, the one before it, and perhaps more of those before,
        without a gap; and can give them all the same weight."""
        offsets = None if len(layer.sees.heads()) > 1 else layer.sees.offsets(self.size)
        if offsets is None or not self._averages(layer):
            return False
        past = offsets[self.size - 1 :]
        reached = int(past.sum())
        contiguous = bool(past[:reached].all()) and reached == int(offsets.sum())
        return contiguous and reached > 1

    def _averages(self, layer: Layer) -> bool:
        """Whether it can give all visible keys the same weight; with ALiBi softmax can, from many
        slopes (docs/theorems.md, "Equivariant functions")."""
        if isinstance(layer.mixer, Mixer):
            return isinstance(layer.mixer, Average | LinearAttention)
        return self.is_soft(layer) or not has_slopes(layer)

    @cached_property
    def uncovered(self) -> str | None:
        """Why no theorem can prove such a design universal; None if one may."""
        design, layers = self.design, self.layers
        if not any(layer.feedforward for layer in layers):
            return "there are no feed-forward layers, and no theorem covers that"
        if not all(layer.feedforward for layer in layers):
            return "some blocks have no feed-forward layer, and no theorem covers that"
        # an RMS norm with learned scales gives all vectors of bounded size, if it gets all; what
        # another norm, at the end of the last block, has left does not become more by it
        ends_normed = design.final_norm not in (None, "learned-rmsnorm")
        if (ends_normed or design.block_norm == "post") and not design.head:
            return "the last norm leaves a relation between the features of an output"
        if design.block_norm == "sandwich":
            return self._unsteady
        return None

    @property
    def _unsteady(self) -> str | None:
        """Why some half cannot give every token the same constant, which a norm at the end of the
        half needs to be harmless."""
        for layer in self.layers:
            raw = layer.mixer == LinearAttention(normalised=False)
            if raw or isinstance(layer.mixer, Bilinear):
                return f"a norm after {layer.mixer} divides by a sum that depends on the position"
            heads = set(layer.sees.heads())  # where all see nothing the half gives 0, as it should
            if layer.attends and len(heads) > 1 and any(map(self._has_empty_row, heads)):
                return "a norm follows heads in which some tokens attend to nothing"
        return None

    @property
    def has_empty_row(self) -> bool:
        """Whether some token attends to nothing in some head of some layer."""
        heads = {part for layer in self.layers for part in layer.sees.heads()}
        return any(map(self._has_empty_row, heads))

    def _has_empty_row(self, pattern: Pattern) -> bool:
        return bool((keys_seen(pattern, self.size) == 0).any())


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
