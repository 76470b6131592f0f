"""Short sequences on a CPU: the formula as one step of autograd, in memory that is used again.

With S = q k^T·scale + bias (-inf where masked), P = softmax(S) and A = P ∘ gain:

    out = A v,   dv = A^T dout,   dA = dout v^T,   dgain = dA ∘ P,
    dS = P ∘ (dA ∘ gain - Σ_j dA ∘ gain ∘ P),   dbias = dS,   dq = dS k·scale,   dk = dS^T q·scale.

Separate operators ask the system for fresh memory for each of these, which takes longer than some
of them compute. Here P is kept for the backward pass, beside the inputs; all else is written over
what the last call left in this thread's `Room`. Softmax and its gradient could write where they
read, but take up to twice as long there: where rows do not fill whole registers, what was just
written of one row is read again with the next.
"""

from __future__ import annotations

from math import isnan
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from anyseq.ops.call import Call
from anyseq.ops.room import Room, Sizes, numbers, room
from anyseq.ops.sdpa import hidden
from anyseq.probability import Softmax

_MOST = 1 << 23  # scores: 32 MB in float32 that a layer keeps for its backward pass
_MOST_ROOM = 1 << 25  # numbers of working memory, which a thread keeps
_DTYPES = (torch.float32, torch.float64)
_PLAIN = (Tensor, torch.nn.Parameter)


def refusal(call: Call) -> str | None:
    """Why this backend cannot do it, or None."""
    q, k, v = call.q, call.k, call.v
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return "a graph is to hold operators"
    if not call.plain_softmax:
        return "it computes softmax without score_mod and weight_mod"
    if call.return_lse:
        return "it keeps no log-sum-exp, so no return_lse"
    if (scores := call.scores) > _MOST:
        return f"it keeps all weights, so at most {_MOST:,} scores, not {scores:,}"
    if (size := numbers(_sizes(q, k, v))) > _MOST_ROOM:
        return f"its working memory has at most {_MOST_ROOM:,} numbers, not {size:,}"
    if call.dropout_p:
        return "it has no dropout"
    if call.groups > 1:
        return "it has no heads that share keys and values"
    if not q.is_cpu or q.dtype not in _DTYPES:
        return f"it computes in float32 and float64 on a CPU, not {q.dtype} on {q.device}"
    for side in (q, k, v, call.bias, call.gain):
        if isinstance(side, Tensor) and type(side) not in _PLAIN:
            return "tensors of another kind want operators that they know"
    # torch has no public questions for these; torch.autograd.Function asks the first one itself
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return "torch.func and dual numbers want operators that they know"
    if torch._C._len_torch_dispatch_stack():
        return "who watches operators may keep what they write to"
    if torch.is_autocast_enabled("cpu"):
        return "autocast chooses types operator by operator"
    return None


def attention(call: Call) -> tuple[Tensor, None]:
    """(out (B, H, N, E), None)."""
    penalties, dtype = [], call.q.dtype
    penalty, empty = hidden(call if call.key_mask is None else call._replace(key_mask=None))
    if penalty is not None:
        penalties.append(penalty)
    if call.key_mask is not None:
        keys = torch.zeros_like(call.key_mask, dtype=dtype).masked_fill_(~call.key_mask, -torch.inf)
        penalties.append(keys[:, None, None, :])
    bias, gain = (
        term
        if term is None or (isinstance(term, Tensor) and term.dtype == dtype)
        else call.dense(term).to(dtype)
        for term in (call.bias, call.gain)
    )
    sides = (call.q, call.k, call.v) if call.packed is None else (call.packed,)
    by_token: Tensor = _Short.apply(
        call.scale, torch.is_grad_enabled(), penalties, bias, gain, *sides
    )
    out = by_token.transpose(1, 2)
    return (out if empty is None else out.masked_fill(empty, 0.0)), None


class _Short(torch.autograd.Function):
    """sides: q (B, H, N, D), k (B, H, M, D) and v (B, H, M, E), or all of them packed,
    (B, N, 3, H, D). penalties are added to scores, as the bias is, and have no gradient. The output
    is (B, N, H, E)."""

    @staticmethod
    def forward(
        ctx: Any,
        scale: float,
        learns: bool,
        penalties: list[Tensor],
        bias: Tensor | None,
        gain: Tensor | None,
        *sides: Tensor,
    ) -> Tensor:
        own = _entered(sides)
        weights = torch.empty_like(own.mixing) if learns else own.mixing
        _scaled_product(own.q, own.k.mT, scale, own.change_flat)
        for term in penalties if bias is None else [bias, *penalties]:
            own.change.add_(term)
        torch.softmax(own.change, -1, out=weights)
        if own.keys and isnan(weights[..., 0].sum().item()):
            # perhaps from a row that sees nothing: its weights are to be 0
            weights = Softmax()(own.change)
        ctx.save_for_backward(weights, bias, gain, *sides, *penalties)
        ctx.scale = scale
        if gain is None:
            torch.bmm(weights.view(own.flat), own.v, out=own.out)
        else:
            torch.mul(weights, gain, out=own.mixing)
            torch.bmm(own.mixing_flat, own.v, out=own.out)
        return own.out_by_token.clone(memory_format=torch.contiguous_format)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (dout,) = gradients
        weights, bias, gain, *rest = ctx.saved_tensors
        count = 1 if rest[0].ndim == 5 else 3
        sides, penalties = rest[:count], rest[count:]
        if torch.is_grad_enabled() or _is_transformed(dout):  # differentiated again, or mapped
            return _by_operators(ctx, dout, penalties, bias, gain, sides)
        own = _entered(sides)
        own.out_by_token.copy_(dout)
        torch.bmm(own.out, own.v.mT, out=own.change_flat)
        dbias = dgain = None
        if gain is not None:
            if ctx.needs_input_grad[4]:
                products = torch.mul(own.change, weights, out=_room_for(gain, own))
                dgain = products.sum_to_size(gain.shape)
            own.change.mul_(gain)
            torch.mul(weights, gain, out=own.mixing)
        mixing = weights.view(own.flat) if gain is None else own.mixing_flat
        torch.bmm(mixing.mT, own.out, out=own.dv)
        learns_bias = bias is not None and ctx.needs_input_grad[3]
        dscores = _room_for(bias, own) if learns_bias else own.mixing
        torch._softmax_backward_data(own.change, weights, -1, weights.dtype, grad_input=dscores)
        if learns_bias:
            dbias = dscores.sum_to_size(bias.shape)
        flat = dscores.view(own.flat)
        _scaled_product(flat, own.k, ctx.scale, own.dq)
        _scaled_product(flat.mT, own.q, ctx.scale, own.dk)
        return None, None, None, dbias, dgain, *own.gradients(len(sides) == 1)


def _is_transformed(gradient: Tensor) -> bool:
    """Whether the backward pass is mapped, by either of torch's ways, or has dual numbers."""
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return True
    return torch._C._functorch.is_legacy_batchedtensor(gradient)


def _by_operators(
    ctx: Any,
    dout: Tensor,
    penalties: list[Tensor],
    bias: Tensor | None,
    gain: Tensor | None,
    sides: list[Tensor],
) -> tuple[Tensor | None, ...]:
    """The gradients by operators that torch can differentiate and map, from the inputs alone."""
    q, k, v = sides if len(sides) == 3 else sides[0].permute(2, 0, 3, 1, 4)
    scores = (q * ctx.scale) @ k.mT
    for term in penalties if bias is None else [bias, *penalties]:
        scores = scores + term
    weights = Softmax()(scores)
    dout = dout.transpose(1, 2)
    dmixing = dout @ v.mT
    dv = (weights if gain is None else weights * gain).mT @ dout
    dweights = dmixing if gain is None else dmixing * gain
    dscores = weights * (dweights - (dweights * weights).sum(-1, keepdim=True))
    dsides = [dscores @ k * ctx.scale, dscores.mT @ q * ctx.scale, dv]
    if len(sides) == 1:
        dsides = [torch.stack([side.transpose(1, 2) for side in dsides], dim=2)]
    dbias = None if bias is None else dscores.sum_to_size(bias.shape)
    dgain = None if gain is None else (dmixing * weights).sum_to_size(gain.shape)
    return None, None, None, dbias, dgain, *dsides


def _entered(sides: tuple[Tensor, ...] | list[Tensor]) -> Room:
    """The room for these sides, with q, k and v in it."""
    if len(sides) == 1:
        batch, tokens, _, heads, size = sides[0].shape
        own = room((batch, heads, tokens, tokens, size, size), sides[0].dtype)
        own.packed.copy_(sides[0])
    else:
        q, k, v = sides
        own = room(_sizes(q, k, v), q.dtype)
        own.q_by_head.copy_(q)
        own.k_by_head.copy_(k)
        own.v_by_head.copy_(v)
    return own


def _sizes(q: Tensor, k: Tensor, v: Tensor) -> Sizes:
    batch, heads, queries, size = q.shape
    return batch, heads, queries, k.shape[2], size, v.shape[3]


def _scaled_product(left: Tensor, right: Tensor, scale: float, into: Tensor) -> None:
    # with beta = 0 what was there counts for nothing, not even NaN
    torch.baddbmm(into, left, right, beta=0, alpha=scale, out=into)


def _room_for(term: Tensor, own: Room) -> Tensor:
    """Where to put the gradient of a bias or gain, (B, H, N, M), before it is summed: in memory of
    its own if it is of that shape already, since then it is given away."""
    return torch.empty_like(own.mixing) if term.shape == own.mixing.shape else own.mixing
