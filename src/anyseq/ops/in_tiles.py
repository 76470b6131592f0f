"""Only the tiles in which a pattern has pairs: linear cost for a sparse pattern.

"native": by the kernel in C++, on a CPU. "tiles": by torch's operators, on any device; what it has
no tiles for (a hook, another map than softmax) is the formula itself, some rows at a time, under
activation checkpointing, so that nothing of size N x M is kept.
"""

from __future__ import annotations

import torch
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

from anyseq.ops import reference
from anyseq.ops.call import Call, Term
from anyseq.ops.native import missing
from anyseq.ops.operator import run_tiles

_SCORES = 1 << 24  # of the formula at a time


def native_refusal(call: Call) -> str | None:
    """Why the native kernel cannot do it, or None."""
    if not call.plain_softmax:
        return "it computes softmax without score_mod and weight_mod"
    if call.q.device.type != "cpu":
        return f"it runs on a CPU, the tensors are on {call.q.device}"
    if (reason := missing()) is not None:
        return f"there is no native kernel here: {reason}"
    return operator_refusal()


def native_attention(call: Call) -> tuple[torch.Tensor, torch.Tensor | None]:
    """(out (B, H, N, E), lse (B, H, N))."""
    return run_tiles(call, native=True)


def operator_refusal() -> str | None:
    """Why only operators that torch knows can be used, or None."""
    # torch has no public questions for these
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return "torch.func and dual numbers need operators that they know"
    return None


def tiles_refusal(call: Call) -> str | None:
    """Why torch's operators cannot do it in tiles, or None."""
    return operator_refusal() if call.plain_softmax else None


def tiles_attention(call: Call) -> tuple[torch.Tensor, torch.Tensor | None]:
    """(out (B, H, N, E), lse (B, H, N) if requested)."""
    if call.plain_softmax:
        return run_tiles(call, native=False)
    queries = call.q.shape[2]
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

    mask = cut(call.mask)
    assert mask is None or isinstance(mask, torch.Tensor)
    return reference.attention(
        call._replace(
            q=call.q[:, :, first:last],
            mask=mask,
            bias=cut(call.bias),
            gain=cut(call.gain),
            q_offset=call.q_offset + first,
        )
    )
