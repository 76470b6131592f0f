"""Theorem 1 in one layer: the head whose gain is 1 at one offset takes one token alone, and so
does a convolution or a recurrence."""

from __future__ import annotations

import torch
from torch.nn.functional import pad

import anyseq as aq
from verdicts.gathering import distinct
from verdicts.heads import Heads
from verdicts.mixing import ByOffset


class OneLayer:
    """A network of a design whose first layer sums by offset, from sequences (B, n) to (B, n, n):
    what each token holds of x after one layer, NaN where it holds nothing. Which offsets a token
    finds tells its place."""

    def __init__(self, design: aq.Design) -> None:
        self.design, self.size = design, design.tokens + design.bos
        self.parts = len(design.cycle[0].heads())
        offsets = 2 * self.size - 1
        self.heads: Heads | ByOffset
        if not design.layer_cycle[0].attends:
            self.heads = ByOffset(design, 0, 3)
        else:
            self.heads = heads = Heads(design, 0, features=3, heads=offsets * self.parts, size=4)
            heads.weight("v")[:, :3] = torch.eye(3)
            (gain,) = (table for name, table in heads.tables().items() if "gain" in name)
            gain.copy_(torch.eye(offsets).repeat_interleave(self.parts, 0))
        self.table = self._found(torch.zeros(1, self.size, dtype=torch.float64))[1][0, design.bos :]
        assert len(distinct(self.table)) == design.tokens

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """(B, n) -> (B, n, n)."""
        bos = int(self.design.bos)
        content, told = (found[:, bos:] for found in self._found(pad(x, (bos, 0))))
        place = torch.cdist(told, self.table.expand_as(told)).argmin(-1)
        assert (place == torch.arange(self.design.tokens)).all(), "places are not told apart"
        offset = place[..., None] - torch.arange(self.design.tokens) + self.size - 1
        held = content.gather(-1, offset)
        own = torch.eye(self.design.tokens, dtype=torch.bool)  # in the residual, seen or not
        return torch.where(own, x[:, None, :], held)

    def _found(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(B, size) -> x at each offset, (B, size, offsets), NaN where there is none; and what is
        found there whatever x is, (B, size, features)."""
        is_bos = (torch.arange(self.size) < int(self.design.bos)).double().expand_as(x)
        found = self.heads(torch.stack([x, 1 - is_bos, is_bos], dim=-1))[..., :3]
        content, token, _ = found.unflatten(2, (-1, self.parts)).sum(3).unbind(-1)
        return content / token, found[..., 1:].flatten(2)
