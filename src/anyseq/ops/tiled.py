"""Some rows with all keys at a time: dense masks with bias and gain, nothing of size N x M kept.

Softmax without hooks runs on tiles that are recomputed in the backward pass, where Toeplitz terms
are views of their tables. Everything else is the formula itself, some rows at a time, under
activation checkpointing.
"""

from __future__ import annotations

import torch
from torch.utils.checkpoint import checkpoint

from anyseq.ops import reference
from anyseq.ops.call import Call, Term
from anyseq.ops.tiles import run_tiles

_SCORES = 1 << 24  # of the formula at a time


def refusal(call: Call) -> str | None:
    """Why this backend cannot do it: never."""
    return None


def attention(call: Call) -> tuple[torch.Tensor, torch.Tensor | None]:
    """(out (B, H, N, E), lse (B, H, N) if it is asked for)."""
    if call.plain_softmax:
        return run_tiles(call, whole_rows=True)
    queries = call.q.shape[2]
    if queries == 0:
        return reference.attention(call)
    if call.pattern is not None:  # its rule may ask for the length, which is that of all rows
        call = call._replace(pattern=None, mask_mod=call.pattern.at(call.span))
    height = max(1, _SCORES * queries // max(1, call.scores))
    parts = [
        checkpoint(_rows, call, first, min(first + height, queries), use_reentrant=False)
        for first in range(0, queries, height)
    ]
    out, lse = zip(*parts, strict=True)
    return torch.cat(out, dim=2), torch.cat(lse, dim=2) if call.return_lse else None


def _rows(call: Call, first: int, last: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The formula for the queries first, ..., last - 1."""

    def cut(term: Term | None) -> Term | None:
        if isinstance(term, torch.Tensor) and term.shape[2] > 1:
            return term[:, :, first:last]
        return term

    mask = call.mask
    return reference.attention(
        call._replace(
            q=call.q[:, :, first:last],
            mask=mask[:, :, first:last] if mask is not None and mask.shape[2] > 1 else mask,
            bias=cut(call.bias),
            gain=cut(call.gain),
            q_offset=call.q_offset + first,
        )
    )
