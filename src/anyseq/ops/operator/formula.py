"""Gradients that can be differentiated again: the formulas of the kernels, written out densely in
operators that torch knows."""

from __future__ import annotations

import torch
from torch import Tensor

from anyseq.errors import InvalidArgument
from anyseq.ops.call import Call
from anyseq.ops.operator.given import Given
from anyseq.ops.operator.keys import combined
from anyseq.probability import Softmax


def differentiable_gradients(
    out_gradient: Tensor,
    lse_gradient: Tensor | None,
    wants_bias: bool,
    wants_gain: bool,
    given: Given,
) -> list[Tensor]:
    """What `tiles_backward` gives. The inputs may depend on each other: each formula has its own
    part of the gradient only."""
    if given.seed is not None:
        raise InvalidArgument(
            "dropout_p: with dropout, gradients of gradients need backend='reference'"
        )
    scale, softcap = given.scale, given.softcap
    call = Call(
        given.q, given.k, given.v,
        pattern=combined(given.pattern, given.is_causal),
        mask=given.mask,
        mask_mod=None,
        key_mask=given.key_mask,
        document_ids=given.documents,
        bias=None,
        gain=None,
        softcap=softcap or None,
        score_mod=None,
        weight_mod=None,
        prob_map=Softmax(),
        scale=scale,
        is_causal=False,
        dropout_p=0.0,
        q_offset=given.q_offset,
        return_lse=lse_gradient is not None,
    )  # fmt: skip
    sides = (given.q, given.k, given.v, given.bias, given.gain)
    q, k, v, out_gradient = (
        side.to(given.dtype) for side in (given.q, given.k, given.v, out_gradient)
    )
    bias, gain = (None if term is None else term.to(given.dtype) for term in sides[3:])
    groups, allowed = call.groups, call.allowed()
    keys, values = (side.repeat_interleave(groups, dim=1) for side in (k, v))
    scores, slope = (q * scale) @ keys.mT, None
    if bias is not None:
        scores = scores + _dense(bias, call, given.places)
    if softcap:
        bent = torch.tanh(scores / softcap)
        scores, slope = softcap * bent, 1 - bent**2
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -torch.inf)
    weights = Softmax()(scores)
    mixing = weights if gain is None else weights * _dense(gain, call)

    dmixing = out_gradient @ values.mT
    dweights = dmixing if gain is None else dmixing * _dense(gain, call)
    dscores = weights * (dweights - (dweights * weights).sum(-1, keepdim=True))
    if lse_gradient is not None:
        dscores = dscores + weights * lse_gradient[..., None]
    if slope is not None:
        dscores = dscores * slope
    dkeys, dvalues = dscores.mT @ q * scale, mixing.mT @ out_gradient
    found = [
        dscores @ keys * scale,
        _by_group(dkeys, groups),
        _by_group(dvalues, groups),
        _of_term(dscores, bias, call, given.places) if wants_bias and bias is not None else None,
        _of_term(dmixing * weights, gain, call) if wants_gain and gain is not None else None,
    ]
    return [
        one.to(side.dtype)
        for one, side in zip(found, sides, strict=True)
        if one is not None and side is not None
    ]


def _dense(term: Tensor, call: Call, places: Tensor | None = None) -> Tensor:
    """A bias or gain as a tensor that broadcasts to (B, H, N, M)."""
    return term[:, _offsets(term, call, places)] if term.ndim == 2 else term


def _offsets(table: Tensor, call: Call, places: Tensor | None) -> Tensor:
    """(N, M): where the entries of a Toeplitz matrix stand in its table."""
    _, _, i, j = call.indices()
    if places is not None:
        i, j = places[i], places[j]
    return i - j + table.shape[1] // 2


def _by_group(gradient: Tensor, groups: int) -> Tensor:
    """Of the heads of k or v, from that of the heads of q which share them."""
    if groups == 1:
        return gradient
    batch, heads, *rest = gradient.shape
    return gradient.reshape(batch, heads // groups, groups, *rest).sum(2)


def _of_term(gradient: Tensor, term: Tensor, call: Call, places: Tensor | None = None) -> Tensor:
    """Of a bias or gain, from that of its entries (B, H, N, M)."""
    if term.ndim == 4:
        return gradient.sum_to_size(term.shape)
    at = _offsets(term, call, places).flatten()
    by_head = gradient.sum(0).reshape(gradient.shape[1], -1).sum_to_size(len(term), len(at))
    return torch.zeros_like(term).index_add(1, at, by_head)
