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
from anyseq.ops.own_steps import is_followed
from anyseq.ops.room import LayerRoom, room
from anyseq.ops.short import terms_of
from anyseq.ops.short_step import Sides, Terms, mix, unmix, written_out


class HeadWeights(NamedTuple):
    """q, k, v: (heads · size, dim); q_bias: (heads · size,); o: (dim, heads · size)."""

    q: Tensor
    q_bias: Tensor | None
    k: Tensor
    v: Tensor
    o: Tensor


def attention_layer(x: Tensor, weights: HeadWeights, call: Call) -> Tensor:
    """(B, N, dim) -> (B, N, dim). The call is one that "short" can do, with anything as q, k and v
    that has the shape and kind of the projections of x."""
    heads, learns = call.q.shape[1], torch.is_grad_enabled()
    rows: Tensor = _Layer.apply(call.scale, heads, learns, *terms_of(call), x, *weights)
    return rows.view(x.shape)  # a view that the step gave could not be changed in place


class _Layer(torch.autograd.Function):
    """penalties, empty, bias, gain: `Terms`; weights: `HeadWeights`. The output is (B·N, dim)."""

    @staticmethod
    def forward(
        ctx: Any,
        scale: float,
        heads: int,
        learns: bool,
        penalties: list[Tensor],
        empty: Tensor | None,
        bias: Tensor | None,
        gain: Tensor | None,
        x: Tensor,
        *weights: Any,
    ) -> Tensor:
        given, own = HeadWeights(*weights), _room(x, heads, len(weights[0]))
        joined = torch.cat((given.q, given.k, given.v))
        torch.mm(x.flatten(0, 1), joined.t(), out=own.projected)
        by_head = own.projected_sides.clone(memory_format=torch.contiguous_format)
        if given.q_bias is not None:
            by_head[0].add_(given.q_bias.view(heads, 1, -1))
        sides, terms = Sides(*by_head.flatten(1, 2)), Terms(penalties, empty, bias, gain)
        shares = mix(own, sides, terms, scale, keep=learns)
        mixed = own.out_by_token.clone(memory_format=torch.contiguous_format).view(own.mixed.shape)
        made = (shares, by_head, mixed, joined)
        ctx.save_for_backward(*made, empty, bias, gain, x, *given, *penalties)
        ctx.scale = scale
        return torch.mm(mixed, given.o.t())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (dy,) = gradients
        shares, by_head, mixed, joined, empty, bias, gain, x, *rest = ctx.saved_tensors
        given, terms = HeadWeights(*rest[:5]), Terms(rest[5:], empty, bias, gain)
        heads = by_head.shape[2]
        if is_followed(dy):
            found = _written_out(x, given, heads, terms, ctx.scale, dy.view(x.shape))
            return None, None, None, None, None, *found
        *_, learns_bias, learns_gain, learns_x, q, q_bias, k, v, o = ctx.needs_input_grad
        rows, own = x.flatten(0, 1), _room(x, heads, len(given.q))
        do = torch.mm(dy.t(), mixed) if o else None
        if not any((learns_bias, learns_gain, learns_x, q, q_bias, k, v)):
            return *(None,) * 12, do
        torch.mm(dy, given.o, out=own.mixed)
        own.out_by_token.copy_(own.mixed_by_token)
        dbias, dgain = unmix(
            own,
            Sides(*by_head.flatten(1, 2)),
            Sides(*own.sides_flat),
            terms,
            ctx.scale,
            shares,
            learns_bias=learns_bias,
            learns_gain=learns_gain,
        )
        own.projected_sides.copy_(own.sides)
        dx = torch.mm(own.projected, joined).view(x.shape) if learns_x else None
        dq = dk = dv = None
        if q or k or v:
            dq, dk, dv = torch.mm(own.projected.t(), rows).split(len(given.q))
        dq_bias = own.sides[0].sum((0, 2)).flatten() if q_bias else None
        return None, None, None, None, None, dbias, dgain, dx, dq, dq_bias, dk, dv, do


def _room(x: Tensor, heads: int, inner: int) -> LayerRoom:
    """For q, k and v of x, with `inner` features each."""
    batch, tokens, _ = x.shape
    return room(LayerRoom, (batch, heads, tokens, tokens, inner // heads), x.dtype)


def _written_out(
    x: Tensor, given: HeadWeights, heads: int, terms: Terms, scale: float, dy: Tensor
) -> tuple[Tensor | None, ...]:
    """The gradients of bias, gain, x and weights by operators that torch can differentiate and
    map."""

    def split(side: Tensor) -> Tensor:
        return side.view(*side.shape[:2], heads, -1).transpose(1, 2)

    def join(side: Tensor) -> Tensor:
        return side.transpose(1, 2).reshape(len(rows), -1)

    rows = x.reshape(-1, x.shape[-1])
    sides = Sides(*map(split, (linear(x, given.q, given.q_bias), x @ given.k.mT, x @ given.v.mT)))
    out, dsides, dbias, dgain = written_out(sides, split(dy @ given.o), terms, scale)
    dq, dk, dv = map(join, dsides)
    dweights = HeadWeights(
        dq.mT @ rows,
        None if given.q_bias is None else dq.sum(0),
        dk.mT @ rows,
        dv.mT @ rows,
        dy.reshape(rows.shape).mT @ join(out),
    )
    dx = (dq @ given.q + dk @ given.k + dv @ given.v).view(x.shape)
    return dbias, dgain, dx, *dweights
