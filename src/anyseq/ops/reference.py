"""The formula, slow and obvious. Every other backend is tested against this one in float64.

out_i = Σ_j [ ρ(q_i·k_j scale + B_ij, -∞ where the mask says no) C_ij ] v_j
"""

from __future__ import annotations

import torch
from torch.nn.functional import dropout

from anyseq.errors import InvalidArgument
from anyseq.ops.call import Call
from anyseq.positions import Toeplitz


def attention(call: Call) -> tuple[torch.Tensor, torch.Tensor]:
    """(out (B, H, N, E), lse (B, H, N)); lse is the log-sum-exp of the masked scores."""
    rows, columns = call.rows, call.columns
    batch, heads = call.q.shape[:2]
    # The four indices of a hook, shaped to broadcast over (B, H, N, M).
    b = torch.arange(batch, device=rows.device)[:, None, None, None]
    h = torch.arange(heads, device=rows.device)[None, :, None, None]
    i, j = rows[:, None], columns[None, :]

    scores = call.q @ call.k.transpose(-1, -2) * call.scale
    if call.bias is not None:
        scores = scores + _dense(call.bias, call)
    if call.score_mod is not None:
        scores = call.score_mod(scores, b, h, i, j)
    if call.mask_mod is not None:
        mask = call.mask_mod(b, h, i, j)
        if mask.dtype != torch.bool:
            raise InvalidArgument(f"pattern: a mask_mod that returns {mask.dtype}, expected bool")
        scores = scores.masked_fill(~mask, -torch.inf)
    if call.key_mask is not None:
        scores = scores.masked_fill(~call.key_mask[:, None, None, :], -torch.inf)
    if call.is_causal:
        scores = scores.masked_fill(j > i, -torch.inf)

    weights = call.prob_map(scores)
    if call.gain is not None:
        weights = weights * _dense(call.gain, call)
    if call.weight_mod is not None:
        weights = call.weight_mod(weights, b, h, i, j)
    weights = dropout(weights, call.dropout_p)
    return weights @ call.v, scores.logsumexp(-1)


def _dense(term: torch.Tensor | Toeplitz, call: Call) -> torch.Tensor:
    if isinstance(term, torch.Tensor):
        return term
    return term.dense(call.q.shape[-2], call.k.shape[-2], call.q_offset)
