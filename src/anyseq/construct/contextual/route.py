"""The route through sparse patterns (Yun et al. 2020b, Assumption 1), and the layers of its steps.

γ is an order of the tokens in which each attends to the one before it in some pattern of the cycle.
Layer i of a network uses pattern i mod p, so what must happen in a certain pattern waits for its
turn.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from anyseq.design import Design
from anyseq.errors import CannotApproximate
from anyseq.graph import hamiltonian_path, reach


@dataclass(frozen=True, eq=False)
class Route:
    """order: γ. masks: (p, n, n) bool, entry (l, i, j) says whether i attends to j in pattern l."""

    order: tuple[int, ...]
    masks: torch.Tensor

    @classmethod
    def through(cls, design: Design, heads: int) -> Route:
        """The route of a design whose layers use this many heads, or the condition it fails."""
        masks = torch.stack([_mask(design, turn, heads) for turn in range(len(design.cycle))])
        lonely = (~masks.diagonal(dim1=1, dim2=2)).nonzero()
        if len(lonely):
            turn, token = lonely[0].tolist()
            raise CannotApproximate(
                f"it needs self-loops, and token {token} does not attend to itself in pattern "
                f"{turn}"
            )
        unreached = reach(design).unreached
        if unreached is not None:
            raise CannotApproximate(f"token {unreached[1]} never reaches token {unreached[0]}")
        path = hamiltonian_path(design)
        if path.order is None:
            known = "there is none" if path.exists is False else f"none was found: {path.message}"
            raise CannotApproximate(
                "it needs an order of the tokens in which each attends to the one before (a "
                f"Hamiltonian path), and {known} ({path.method})"
            )
        return cls(tuple(path.order.tolist()), masks)

    @property
    def period(self) -> int:
        """p."""
        return len(self.masks)

    @property
    def offsets(self) -> tuple[int, ...]:
        """E of each token: n-1 for γ(1), then 0, 1, ... along γ."""
        along = [len(self.order) - 1, *range(len(self.order) - 1)]
        return tuple(along[self.order.index(token)] for token in range(len(self.order)))

    def next_turn(self, place: int, layer: int) -> int:
        """The first layer, from `layer` on, in which γ(place) attends to the one before it."""
        sees = self.masks[:, self.order[place], self.order[place - 1]].tolist()
        return next(late for late in range(layer, layer + self.period) if sees[late % self.period])

    def spread(self, layer: int) -> int:
        """How many layers, from `layer` on, what the last token of γ holds takes to reach all."""
        holds = torch.zeros(len(self.order), dtype=torch.bool)
        holds[self.order[-1]] = True
        layers = 0
        while not holds.all():
            holds = (self.masks[(layer + layers) % self.period] & holds).any(1)
            layers += 1
        return layers

    def best_spread(self, layer: int) -> tuple[int, int]:
        """(first layer, number of layers) of the shortest such spread; at least one layer."""
        starts = range(layer, layer + self.period)
        first = min(starts, key=self.spread)
        return first, max(1, self.spread(first))


def _mask(design: Design, turn: int, heads: int) -> torch.Tensor:
    """Which tokens each token attends to in pattern `turn`, the same in every head that is used."""
    if design.cycle[turn].differs:
        raise CannotApproximate(f"pattern {turn} depends on the batch row or the head")
    parts = design.cycle[turn].heads()
    masks = [part.mask(design.tokens) for part in parts[:heads]]
    if any(not torch.equal(mask, masks[0]) for mask in masks):
        raise CannotApproximate(
            f"it compares two heads of a layer, which in pattern {turn} attend to different tokens"
        )
    return masks[0]
