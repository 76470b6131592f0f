"""Short sequences with a bias or a gain: the formula as one step of autograd.

torch's own kernels know no gain and, on a CPU, leave a bias that is learned to separate operators,
each a pass over all scores. Here a few rows of the batch at a time go through all of them while
they are in the cache; the backward pass computes the weights again instead of keeping them. The
gradient of a Toeplitz table is summed along diagonals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from anyseq.ops.call import Call, Term
from anyseq.ops.sdpa import hidden
from anyseq.positions import Toeplitz

_CACHED = 1 << 17  # scores at a time


def refusal(call: Call) -> str | None:
    """Why this backend cannot do it, or None."""
    if not call.plain_softmax:
        return "it computes softmax without score_mod and weight_mod"
    if call.return_lse:
        return "it keeps no log-sum-exp, so no return_lse"
    if call.dropout_p > 0:
        return "it has no dropout"
    if call.q.dtype not in (torch.float32, torch.float64):
        return f"it computes in float32 and float64, not in {call.q.dtype}"
    if torch.compiler.is_compiling():
        return "a compiled graph is to hold operators that can be fused"
    # torch has no public question for this; torch.autograd.Function itself asks the same one
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return "torch.func and dual numbers want operators that they know"
    return None


def attention(call: Call) -> tuple[Tensor, None]:
    """(out (B, H, N, E), None)."""
    k, v = call.k, call.v
    if call.groups > 1:
        k, v = (side.repeat_interleave(call.groups, dim=1) for side in (k, v))
    bias, gain = (_numbers(term, call) for term in (call.bias, call.gain))
    out: Tensor = _Short.apply(call.q, k, v, bias, gain, *hidden(call), call.scale, call.q_offset)
    return out, None


def _numbers(term: Term | None, call: Call) -> Tensor | None:
    """(H or 1, 2r+1) coefficients of a Toeplitz matrix, or a tensor of four axes."""
    given = term.coefficients if isinstance(term, Toeplitz) else term
    return None if given is None else given.to(call.q.dtype)


class _Short(torch.autograd.Function):
    """[softmax(q k^T scale + bias + penalty) ∘ gain] v, and 0 in rows that are empty."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor | None,
        gain: Tensor | None,
        penalty: Tensor | None,
        empty: Tensor | None,
        scale: float,
        q_offset: int,
    ) -> Tensor:
        added, factor = (_dense(term, q, k, q_offset) for term in (bias, gain))
        if added is not None:
            added = added if penalty is None else added + penalty
            unseen = (added == -torch.inf).all(-1, keepdim=True)
            empty = unseen if empty is None else unseen | empty
        else:
            added = penalty
        if empty is not None and not bool(empty.any()):
            empty = None
        out = _by_tokens(v, q.shape[2])
        for rows, weights in _chunks(q, k, added, empty, scale):
            gained = weights if factor is None else weights.mul_(_of(factor, rows))
            _put(out, rows, torch.bmm(_flat(gained), _flat(v[rows])))
        ctx.save_for_backward(q, k, v, bias, gain, penalty, added, empty)
        ctx.scale, ctx.q_offset = scale, q_offset
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (dout,) = gradients
        q, k, v, bias, gain, penalty, added, empty = ctx.saved_tensors
        wanted = ctx.needs_input_grad[:5]
        if torch.is_grad_enabled():  # the gradients will be differentiated again
            out = _formula(q, k, v, bias, gain, penalty, empty, ctx.scale, ctx.q_offset)
            leaves = zip((q, k, v, bias, gain), wanted, strict=True)
            chosen = [leaf for leaf, wants in leaves if wants]
            found = iter(torch.autograd.grad(out, chosen, dout, create_graph=True))
            return (*(next(found) if wants else None for wants in wanted), *[None] * 4)
        factor = _dense(gain, q, k, ctx.q_offset)
        dq, dk, dv = (_by_tokens(side, side.shape[2]) for side in (q, k, v))
        dbias, dgain = (
            _zeros(term, q, k) if wants else None
            for term, wants in zip((bias, gain), wanted[3:], strict=True)
        )
        for rows, weights in _chunks(q, k, added, empty, ctx.scale):
            # an expanded gradient would be multiplied matrix by matrix
            own = _flat(dout[rows]).contiguous()
            change = torch.bmm(own, _flat(v[rows]).mT).view_as(weights)
            gained = weights
            if factor is not None:
                gained = weights * _of(factor, rows)
                if dgain is not None:
                    _collect(dgain, rows, change * weights)
                change.mul_(_of(factor, rows))
            _put(dv, rows, torch.bmm(_flat(gained).mT, own))
            change = torch.ops.aten._softmax_backward_data(change, weights, -1, q.dtype)
            if dbias is not None:
                _collect(dbias, rows, change)
            change = _flat(change.mul_(ctx.scale))
            _put(dq, rows, torch.bmm(change, _flat(k[rows])))
            _put(dk, rows, torch.bmm(change.mT, _flat(q[rows])))
        terms = (_summed(dbias, bias, ctx.q_offset), _summed(dgain, gain, ctx.q_offset))
        return (dq, dk, dv, *terms, *[None] * 4)


def _chunks(
    q: Tensor, k: Tensor, added: Tensor | None, empty: Tensor | None, scale: float
) -> Iterator[tuple[slice, Tensor]]:
    """Rows of the batch, and their weights (b, H, N, M), which are overwritten by the next ones."""
    batch, size = q.shape[0], (*q.shape[1:3], k.shape[2])
    most = max(1, min(batch, _CACHED // max(1, math.prod(size))))
    if q.device.type != "cpu":
        most = max(1, batch)
    scratch = q.new_empty(most, *size)
    for first in range(0, batch, most):
        rows = slice(first, min(batch, first + most))
        weights = scratch[: rows.stop - first]
        scores = _flat(weights)
        if added is not None:
            weights.copy_(_of(added, rows))
        # with beta = 0 what was there counts for nothing, not even NaN
        beta = float(added is not None)
        torch.baddbmm(scores, _flat(q[rows]), _flat(k[rows]).mT, beta=beta, alpha=scale, out=scores)
        torch.softmax(scores, -1, out=scores)
        if empty is not None:
            weights.masked_fill_(_of(empty, rows), 0.0)
        yield rows, weights


def _formula(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    gain: Tensor | None,
    penalty: Tensor | None,
    empty: Tensor | None,
    scale: float,
    q_offset: int,
) -> Tensor:
    """The same of operators that can be differentiated twice."""
    scores = q @ k.mT * scale
    for term in (_dense(bias, q, k, q_offset), penalty):
        scores = scores if term is None else scores + term
    if empty is not None:  # before the softmax, or NaN would come back from it
        scores = scores.masked_fill(empty, 0.0)
    weights = scores.softmax(-1)
    if empty is not None:
        weights = weights.masked_fill(empty, 0.0)
    factor = _dense(gain, q, k, q_offset)
    return (weights if factor is None else weights * factor) @ v


def _flat(side: Tensor) -> Tensor:
    """(b, H, N, D) -> (b·H, N, D)."""
    return side.flatten(0, 1)


def _by_tokens(side: Tensor, tokens: int) -> Tensor:
    """An empty (B, H, tokens, D) that lies in memory as (B, tokens, H, D), as projections do."""
    batch, heads, _, size = side.shape
    return side.new_empty(batch, tokens, heads, size).transpose(1, 2)


def _put(whole: Tensor, rows: slice, part: Tensor) -> None:
    own = whole[rows]
    own.copy_(part.view(own.shape))


def _of(term: Tensor, rows: slice) -> Tensor:
    """What the rows of the batch see of a term that all of them may share."""
    return term[rows] if term.ndim == 4 and term.shape[0] > 1 else term


def _dense(term: Tensor | None, q: Tensor, k: Tensor, q_offset: int) -> Tensor | None:
    if term is None or term.ndim == 4:
        return term
    return Toeplitz(term).dense(q.shape[2], k.shape[2], q_offset)


def _zeros(term: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """For the gradient of a term, (B or 1, H, N, M)."""
    shared = term.ndim == 2 or term.shape[0] == 1
    return q.new_zeros(1 if shared else q.shape[0], *q.shape[1:3], k.shape[2])


def _collect(gradient: Tensor, rows: slice, part: Tensor) -> None:
    if gradient.shape[0] == 1:
        gradient += part.sum(0)
    else:
        gradient[rows] = part


def _summed(gradient: Tensor | None, term: Tensor, q_offset: int) -> Tensor | None:
    """The gradient (B or 1, H, N, M) in the shape of its term."""
    if gradient is None:
        return None
    if term.ndim == 4:
        return gradient.sum_to_size(term.shape)
    rows, columns = gradient.shape[2:]
    # row i moved i places to the right, columns backwards: the offset i - j is one column
    moved = torch.nn.functional.pad(gradient[0].flip(-1), (0, rows)).flatten(1)[:, :-rows]
    diagonals = moved.view(-1, rows, rows + columns - 1).sum(1)
    if len(term) == 1:
        diagonals = diagonals.sum(0, keepdim=True)
    table, first = torch.zeros_like(term), term.shape[1] // 2 + q_offset - (columns - 1)
    table[:, first : first + rows + columns - 1] = diagonals
    return table
