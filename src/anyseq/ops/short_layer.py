"""A whole layer of short attention as one step of autograd: projections, attention, output.

    y = mixed W_O^T,   mixed = [softmax(q k^T·scale + bias, masked) ∘ gain] v of all heads,
    q = x W_Q^T + b_Q,   k = x W_K^T,   v = x W_V^T.

Small layers spend much of their time between operators. Here q, k and v are one product, whose
weights are put together every time, and autograd keeps one step instead of a dozen.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from anyseq.ops.call import Call
from anyseq.ops.short import Terms
from anyseq.ops.short_step import Sides, is_followed, mix, unmix, written_out


class HeadWeights(NamedTuple):
    """q, k, v: (heads · size, dim); q_bias: (heads · size,); o: (dim, heads · size)."""

    q: Tensor
    q_bias: Tensor | None
    k: Tensor
    v: Tensor
    o: Tensor


def layer(x: Tensor, weights: HeadWeights, call: Call) -> Tensor:
    """(B, N, dim) -> (B, N, dim). The call is one that "short" can do, with anything as q, k and v
    that has the shape and kind of the projections of x."""
    heads = call.q.shape[1]
    y: Tensor = _Layer.apply(
        call.scale, heads, torch.is_grad_enabled(), *Terms.of(call), x, *weights
    )
    return y


class _Layer(torch.autograd.Function):
    """penalties, bias, gain, empty: `Terms`; weights: `HeadWeights`."""

    @staticmethod
    def forward(
        ctx: Any,
        scale: float,
        heads: int,
        learns: bool,
        penalties: list[Tensor],
        bias: Tensor | None,
        gain: Tensor | None,
        empty: Tensor | None,
        x: Tensor,
        *weights: Any,
    ) -> Tensor:
        given, rows = HeadWeights(*weights), x.flatten(0, 1)
        joined = torch.cat((given.q, given.k, given.v))
        projected = torch.mm(rows, joined.t())
        if given.q_bias is not None:
            projected[:, : len(given.q)].add_(given.q_bias)
        by_head = projected.view(*x.shape[:2], 3, heads, -1).permute(2, 0, 3, 1, 4).contiguous()
        sides = Sides(*by_head)
        own = sides.room
        shares = mix(sides, own, scale, penalties, bias, gain, keep=learns)
        if empty is not None:
            own.out_by_head.masked_fill_(empty, 0.0)
        mixed = own.out_by_token.clone(memory_format=torch.contiguous_format).view(len(rows), -1)
        made = (shares, by_head, mixed, joined)
        ctx.save_for_backward(*made, bias, gain, empty, x, *given, *penalties)
        ctx.scale = scale
        return torch.mm(mixed, given.o.t()).view(x.shape)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (dy,) = gradients
        shares, by_head, mixed, joined, bias, gain, empty, x, *rest = ctx.saved_tensors
        given, penalties = HeadWeights(*rest[:5]), rest[5:]
        if is_followed(dy):
            terms = Terms(penalties, bias, gain, empty)
            return None, None, None, *_written_out(x, given, by_head.shape[2], ctx.scale, terms, dy)
        learns_bias, learns_gain, _, learns_x, *learns = ctx.needs_input_grad[4:]
        sides, dby_head = Sides(*by_head), torch.empty_like(by_head)
        own, inner = sides.room, len(given.q)
        rows, dy_rows = x.flatten(0, 1), dy.flatten(0, 1)
        own.out_by_token.copy_(torch.mm(dy_rows, given.o).view(own.out_by_token.shape))
        if empty is not None:
            own.out_by_head.masked_fill_(empty, 0.0)
        dbias, dgain = unmix(
            sides,
            Sides(*dby_head),
            own,
            ctx.scale,
            shares,
            gain,
            learned_bias=bias if learns_bias else None,
            learned_gain=gain if learns_gain else None,
        )
        dprojected = dby_head.permute(1, 3, 0, 2, 4).reshape(len(rows), -1)
        dx = torch.mm(dprojected, joined).view(x.shape) if learns_x else None
        dq = dk = dv = dq_bias = None
        if learns[0] or learns[2] or learns[3]:
            dq, dk, dv = torch.mm(dprojected.t(), rows).split(inner)
        if learns[1]:
            dq_bias = dprojected[:, :inner].sum(0)
        do = torch.mm(dy_rows.t(), mixed) if learns[4] else None
        return None, None, None, None, dbias, dgain, None, dx, dq, dq_bias, dk, dv, do


def _written_out(
    x: Tensor, given: HeadWeights, heads: int, scale: float, terms: Terms, dy: Tensor
) -> tuple[Tensor | None, ...]:
    """The gradients of `Terms`, x and `HeadWeights` by operators that torch can differentiate."""
    penalties, bias, gain, empty = terms

    def split(side: Tensor) -> Tensor:
        return side.view(*side.shape[:2], heads, -1).transpose(1, 2)

    def join(side: Tensor) -> Tensor:
        return side.transpose(1, 2).flatten(2)

    def over_rows(left: Tensor, right: Tensor) -> Tensor:
        return torch.mm(left.flatten(0, 1).t(), right.flatten(0, 1))

    sides = Sides(*map(split, (linear(x, given.q, given.q_bias), x @ given.k.mT, x @ given.v.mT)))
    dout = split(dy @ given.o)
    dout = dout if empty is None else dout.masked_fill(empty, 0.0)
    out, dsides, dbias, dgain = written_out(sides, dout, scale, penalties, bias, gain)
    out = out if empty is None else out.masked_fill(empty, 0.0)
    dq, dk, dv = map(join, dsides)
    return (
        None,
        dbias,
        dgain,
        None,
        dq @ given.q + dk @ given.k + dv @ given.v,
        over_rows(dq, x),
        None if given.q_bias is None else dq.flatten(0, 1).sum(0),
        over_rows(dk, x),
        over_rows(dv, x),
        over_rows(dy, join(out)),
    )
