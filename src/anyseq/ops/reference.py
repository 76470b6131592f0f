"""The formula, slow and obvious. Every other backend is tested against this one in float64.

out_i = Σ_j [ ρ(softcap(q_i·k_j scale + B_ij), -∞ where masked) C_ij ] v_j,
with softcap(s) = c tanh(s / c) if requested
"""

from __future__ import annotations

import math

import torch
from torch.nn.functional import dropout

from anyseq.ops.call import Call, may_look
from anyseq.probability import Softmax


def refusal(call: Call) -> str | None:
    """Why this backend cannot do it: never."""
    return None


def attention(call: Call) -> tuple[torch.Tensor, torch.Tensor | None]:
    """(out (B, H, N, E), lse (B, H, N)); lse is the log-sum-exp of the masked scores, None
    unless requested: it costs as much as the softmax."""
    weights, lse = weights_and_lse(call)
    v = call.v if call.groups == 1 else call.v.repeat_interleave(call.groups, dim=1)
    return weights.to(v.dtype) @ v, lse


def weights_and_lse(call: Call) -> tuple[torch.Tensor, torch.Tensor | None]:
    """What the values are multiplied with, (B, H, N, M), after gain, hook and dropout; and lse."""
    k = call.k if call.groups == 1 else call.k.repeat_interleave(call.groups, dim=1)
    scores = (call.q * call.scale) @ k.transpose(-1, -2)
    if call.bias is not None:
        scores = scores + call.dense(call.bias)
    if call.softcap is not None:
        scores = call.softcap * torch.tanh(scores / call.softcap)
    if call.score_mod is not None:
        scores = call.score_mod(scores, *call.indices())
    allowed = call.allowed()
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -torch.inf)

    lse = _log_sum_exp(scores) if call.return_lse else None
    weights = weights_of(call, scores)
    del scores  # their memory, still in the cache, is for what comes next
    if call.gain is not None:
        weights = weights * call.dense(call.gain)
    if call.weight_mod is not None:
        weights = call.weight_mod(weights, *call.indices())
    if call.dropout_p:
        weights = dropout(weights, call.dropout_p)
    return weights, lse


def weights_of(call: Call, scores: torch.Tensor) -> torch.Tensor:
    """The probability map of the scores. torch's softmax will do unless a row is empty, which it
    makes NaN. Checking costs less than handling such rows in both passes."""
    if may_look(call.q) and type(call.prob_map) is Softmax and scores.shape[-1]:
        weights = scores.softmax(-1)
        if not math.isnan(weights.detach()[..., 0].sum().item()):
            return weights
    return call.prob_map(scores)


def _log_sum_exp(scores: torch.Tensor) -> torch.Tensor:
    """log Σ_j exp(s_j); for a row with nothing to attend to -inf and, unlike torch's own, no
    gradient."""
    empty = (scores == -torch.inf).all(-1)
    if scores.dtype != torch.float64:
        scores = scores.float()  # half precision would lose what others keep
    lse = scores.masked_fill(empty[..., None], 0.0).logsumexp(-1)
    return lse.masked_fill(empty, -torch.inf)
