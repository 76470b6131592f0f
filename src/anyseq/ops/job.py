"""What the tiles of all heads are computed from, in torch's operators or by the native kernel."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anyseq.ops.layout import Sizes
from anyseq.patterns import Pattern


@dataclass
class Job:
    """q (B, H, N, D), k (B, G, M, D), v (B, G, M, E), with G a divisor of H, in the type they are
    computed in, float32 or float64; for the native kernel also in halves, computed in float32.

    mask: bool, four axes, each of full size or 1. key_mask: (B, M) bool. True = may attend.
    documents: (B, M) int64; query i is at position q_offset + i. All three may be None, and so may
    bias, gain: (H or 1, 2r+1) coefficients of a Toeplitz matrix, or four axes of full size or 1.
    places: (tokens,) int64, if the bias is Toeplitz in places[i] - places[j] instead of i - j.
    softcap: 0 for none. seed: for dropout.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | None
    key_mask: Tensor | None
    documents: Tensor | None
    bias: Tensor | None
    gain: Tensor | None
    places: Tensor | None
    seed: int
    pattern: Pattern
    scale: float
    softcap: float
    dropout_p: float
    q_offset: int

    @property
    def sizes(self) -> Sizes:
        return Sizes(self.q.shape[2], self.k.shape[2], self.q_offset)

    def query_documents(self) -> Tensor:
        """(B, N)."""
        assert self.documents is not None
        return self.documents[:, self.q_offset : self.q_offset + self.q.shape[2]]

    def new_out(self) -> tuple[Tensor, Tensor]:
        """Room for out (B, H, N, E), in the order (B, N, H, E), as layers want it next, and lse."""
        batch, heads, queries, _ = self.q.shape
        out = self.q.new_empty(batch, queries, heads, self.v.shape[3]).transpose(1, 2)
        computed = torch.promote_types(self.q.dtype, torch.float32)
        return out, self.q.new_empty(batch, heads, queries, dtype=computed)


@dataclass
class Returning:
    """out and lse of a job, and the gradients that come back to them."""

    out: Tensor
    lse: Tensor
    out_gradient: Tensor
    lse_gradient: Tensor | None
    wants_bias: bool
    wants_gain: bool


@dataclass
class Gradients:
    """Of the arguments of a job, shaped like them; None where not asked for."""

    q: Tensor
    k: Tensor
    v: Tensor
    bias: Tensor | None
    gain: Tensor | None


def room_for(side: Tensor) -> Tensor:
    """Fresh memory for the gradient of q, k or v: (B, H, N, D), or (B, N, H, D) in that order if
    that is how the side lies in memory, as projections leave it; features side by side."""
    batch, heads, rows, size = side.shape
    if side.stride(1) < side.stride(2):
        return side.new_empty(batch, rows, heads, size).transpose(1, 2)
    return side.new_empty(batch, heads, rows, size)
