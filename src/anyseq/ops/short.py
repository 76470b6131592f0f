"""Short sequences on a CPU: the formula as one step of autograd, see `short_step`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from anyseq.ops.call import Call
from anyseq.ops.own_steps import is_followed, step_refusal
from anyseq.ops.room import numbers
from anyseq.ops.sdpa import hidden
from anyseq.ops.short_step import Sides, Terms, mix, unmix, written_out

_MOST = 1 << 23  # scores: 32 MB in float32 that a layer keeps for its backward pass
_MOST_ROOM = 1 << 25  # numbers of working memory, which a thread keeps; a layer's `Room` has more


def refusal(call: Call) -> str | None:
    """Why this backend cannot do it, or None."""
    q, k, v = call.q, call.k, call.v
    terms = (term for term in (call.bias, call.gain) if isinstance(term, Tensor))
    if (reason := step_refusal(q, k, v, *terms)) is not None:  # first: a graph serves many lengths
        return reason
    (batch, heads, queries, _), keys = q.shape, k.shape[2]
    if not call.plain_softmax:
        return "it computes softmax without score_mod and weight_mod"
    if call.return_lse:
        return "it keeps no log-sum-exp, so no return_lse"
    if (scores := batch * heads * queries * keys) > _MOST:
        return f"it keeps all weights, so at most {_MOST:,} scores, not {scores:,}"
    if (size := numbers((batch, heads, queries, keys, v.shape[3]))) > _MOST_ROOM:
        return f"its working memory has at most {_MOST_ROOM:,} numbers, not {size:,}"
    if call.dropout_p:
        return "it has no dropout"
    if k.shape[1] < heads:
        return "it has no heads that share keys and values"
    return None


def terms_of(call: Call) -> Terms:
    """As tensors of the call's dtype."""
    penalties, dtype = [], call.q.dtype
    penalty, empty = hidden(call if call.key_mask is None else call._replace(key_mask=None))
    if penalty is not None:
        penalties.append(penalty)
    if (mask := call.key_mask) is not None:
        keys = torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, -torch.inf)
        penalties.append(keys[:, None, None, :])
    bias, gain = (
        term
        if term is None or (isinstance(term, Tensor) and term.dtype == dtype)
        else call.dense(term).to(dtype)
        for term in (call.bias, call.gain)
    )
    return Terms(penalties, empty, bias, gain)


def attention(call: Call) -> tuple[Tensor, None]:
    """(out (B, H, N, E), None)."""
    sides = (side.contiguous() for side in (call.q, call.k, call.v))
    by_token: Tensor = _Short.apply(call.scale, torch.is_grad_enabled(), *terms_of(call), *sides)
    return by_token.transpose(1, 2), None


class _Short(torch.autograd.Function):
    """penalties, empty, bias, gain: `Terms`; sides: `Sides`. The output is (B, N, H, E)."""

    @staticmethod
    def forward(
        ctx: Any,
        scale: float,
        learns: bool,
        penalties: list[Tensor],
        empty: Tensor | None,
        bias: Tensor | None,
        gain: Tensor | None,
        *sides: Tensor,
    ) -> Tensor:
        given = Sides(*sides)
        own, terms = given.room, Terms(penalties, empty, bias, gain)
        weights = mix(own, given.flat(), terms, scale, keep=learns)
        ctx.save_for_backward(weights, empty, bias, gain, *sides, *penalties)
        ctx.scale = scale
        return own.out_by_token.clone(memory_format=torch.contiguous_format)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (dout,) = gradients
        weights, empty, bias, gain, q, k, v, *penalties = ctx.saved_tensors
        sides, terms = Sides(q, k, v), Terms(penalties, empty, bias, gain)
        if is_followed(dout):
            _, dsides, dbias, dgain = written_out(sides, dout.transpose(1, 2), terms, ctx.scale)
            return None, None, None, None, dbias, dgain, *dsides
        own, dsides = sides.room, Sides(*map(torch.empty_like, sides))
        own.out_by_token.copy_(dout)
        dbias, dgain = unmix(
            own,
            sides.flat(),
            dsides.flat(),
            terms,
            ctx.scale,
            weights,
            learns_bias=ctx.needs_input_grad[4],
            learns_gain=ctx.needs_input_grad[5],
        )
        return None, None, None, None, dbias, dgain, *dsides
