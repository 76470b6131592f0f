"""Short sequences on a CPU: the formula as one step of autograd, see `short_step`."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from anyseq.ops.call import Call
from anyseq.ops.room import numbers
from anyseq.ops.sdpa import hidden
from anyseq.ops.short_step import Sides, is_followed, mix, unmix, written_out

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
    if (size := numbers(Sides(q, k, v).sizes)) > _MOST_ROOM:
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


class Terms(NamedTuple):
    """What acts on scores and weights: penalties, which are added to scores as the bias is, and
    have no gradient; and empty, which rows see nothing, (B, H, N, 1) or None."""

    penalties: list[Tensor]
    bias: Tensor | None
    gain: Tensor | None
    empty: Tensor | None

    @classmethod
    def of(cls, call: Call) -> Terms:
        """Those of a call, as tensors of its dtype."""
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
        return cls(penalties, bias, gain, empty)


def attention(call: Call) -> tuple[Tensor, None]:
    """(out (B, H, N, E), None)."""
    penalties, bias, gain, empty = Terms.of(call)
    sides = (side.contiguous() for side in (call.q, call.k, call.v))
    by_token: Tensor = _Short.apply(
        call.scale, torch.is_grad_enabled(), penalties, bias, gain, *sides
    )
    out = by_token.transpose(1, 2)
    return (out if empty is None else out.masked_fill(empty, 0.0)), None


class _Short(torch.autograd.Function):
    """sides: q, k and v, contiguous. The output is (B, N, H, E)."""

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
        given = Sides(*sides)
        own = given.room
        weights = mix(given, own, scale, penalties, bias, gain, keep=learns)
        ctx.save_for_backward(weights, bias, gain, *sides, *penalties)
        ctx.scale = scale
        return own.out_by_token.clone(memory_format=torch.contiguous_format)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (dout,) = gradients
        weights, bias, gain, q, k, v, *penalties = ctx.saved_tensors
        sides = Sides(q, k, v)
        if is_followed(dout):
            found = written_out(sides, dout.transpose(1, 2), ctx.scale, penalties, bias, gain)
            return None, None, None, found.dbias, found.dgain, *found.dsides
        _, _, _, learns_bias, learns_gain, *_ = ctx.needs_input_grad
        own, dsides = sides.room, Sides(*map(torch.empty_like, sides))
        own.out_by_token.copy_(dout)
        dbias, dgain = unmix(
            sides,
            dsides,
            own,
            ctx.scale,
            weights,
            gain,
            learned_bias=bias if learns_bias else None,
            learned_gain=gain if learns_gain else None,
        )
        return None, None, None, dbias, dgain, *dsides
