"""What one stage of a network did to one input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from anyseq.construct.network.stages import Stage


@dataclass(frozen=True, eq=False)
class Hit:
    """A half of layer `layer` changed the reading of some tokens.

    before, after: the reading (tokens, numbers) on both sides of it.
    looks: if it was an attention half, or the first to show what one brought, the weights
    (positions, positions) of each head that is not idle, by its number: row i is what i attends to.
    """

    layer: int
    before: torch.Tensor
    after: torch.Tensor
    looks: Mapping[int, torch.Tensor]

    @property
    def changed(self) -> list[int]:
        """The tokens whose reading changed, counted from 0."""
        return [int(at) for at in (self.before != self.after).any(1).nonzero()]


@dataclass(frozen=True, eq=False)
class Step:
    """One stage: layers first, ..., first + stage.layers - 1, counted from 0.

    before, after: the stage's reading (tokens, numbers). ids: (tokens,) the ids that tokens enter
    with, if it reads something else of them. expected: what the structured form says
    should come out, or None; apart: the largest difference to it, as a share of its size where that
    is above 1. notes: what else the structured form says of x here.
    """

    stage: Stage
    first: int
    before: torch.Tensor
    after: torch.Tensor
    hits: tuple[Hit, ...]
    ids: torch.Tensor | None
    expected: torch.Tensor | None
    apart: float | None
    notes: tuple[str, ...]
