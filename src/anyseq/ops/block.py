"""Only the tiles in which a pattern has pairs: linear cost for a sparse pattern, on any device."""

from __future__ import annotations

import torch

from anyseq.ops.call import Call
from anyseq.ops.tiles import run_tiles


def refusal(call: Call) -> str | None:
    """Why this backend cannot do it, or None."""
    if not call.plain_softmax:
        return "it computes softmax without score_mod and weight_mod"
    if call.mask is not None or call.mask_mod is not None:
        return (
            "a mask_mod or a mask may differ from batch row to batch row and from head to head; "
            "if it does not, give it as FromMask(...)"
        )
    return None


def attention(call: Call) -> tuple[torch.Tensor, torch.Tensor]:
    """(out (B, H, N, E), lse (B, H, N))."""
    return run_tiles(call, whole_rows=False)
