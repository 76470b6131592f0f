"""The tiles as operators, which torch.compile keeps whole, with their gradients.

Where no compiler or mode needs operators they are a step of autograd instead, made of the same
functions: torch takes a third of a millisecond longer for a training step with an operator written
in Python.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from anyseq.ops import native as native_kernel
from anyseq.ops import tiles as torch_tiles
from anyseq.ops.job import Returning, room_for
from anyseq.ops.operator.formula import differentiable_gradients
from anyseq.ops.operator.given import SCHEMA, TENSORS, Given
from anyseq.ops.operator.keys import combined


def _forward(*arguments: Any) -> tuple[Tensor, Tensor]:
    """out (B, H, N, E), in the order (B, N, H, E), and lse (B, H, N), in float32 at least."""
    given = Given(*arguments)
    run = native_kernel.forward if given.native else torch_tiles.forward
    out, lse = run(given.job())
    return out.to(given.q.dtype), lse


def _fake_forward(*arguments: Any) -> tuple[Tensor, Tensor]:
    given = Given(*arguments)
    batch, heads, queries, _ = given.q.shape
    out = given.q.new_empty(batch, queries, heads, given.v.shape[3]).transpose(1, 2)
    return out, given.q.new_empty(batch, heads, queries, dtype=given.dtype)


def _gradients(
    out_gradient: Tensor,
    lse_gradient: Tensor | None,
    out: Tensor,
    lse: Tensor,
    wants_bias: bool,
    wants_gain: bool,
    *arguments: Any,
) -> list[Tensor]:
    """The gradients of q, k, v and, where wanted, of bias and gain."""
    given = Given(*arguments)
    returning = Returning(
        given.side(out), lse, given.side(out_gradient), lse_gradient, wants_bias, wants_gain
    )
    run = native_kernel.backward if given.native else torch_tiles.backward
    found = run(given.job(), returning)
    each = [one for one in (found.q, found.k, found.v, found.bias, found.gain) if one is not None]
    # In the type of what was given, and in the order of memory that the operator promises: a copy
    # in another type may have lain otherwise.
    rooms = _fake_gradients(
        out_gradient, lse_gradient, out, lse, wants_bias, wants_gain, *arguments
    )
    return [
        one if one.dtype == room.dtype else room.copy_(one)
        for one, room in zip(each, rooms, strict=True)
    ]


def _fake_gradients(
    out_gradient: Tensor,
    lse_gradient: Tensor | None,
    out: Tensor,
    lse: Tensor,
    wants_bias: bool,
    wants_gain: bool,
    *arguments: Any,
) -> list[Tensor]:
    given = Given(*arguments)
    wanted = ((given.bias, wants_bias), (given.gain, wants_gain))
    terms = [term for term, wants in wanted if wants and term is not None]
    return [*map(room_for, (given.q, given.k, given.v)), *map(torch.empty_like, terms)]


_RETURNING = "Tensor out_gradient, Tensor? lse_gradient, Tensor out, Tensor lse"
_WANTED = "bool wants_bias, bool wants_gain"

tiles = torch.library.custom_op(
    "anyseq::tiles", _forward, mutates_args=(), schema=f"({SCHEMA}) -> (Tensor, Tensor)"
)
tiles.register_fake(_fake_forward)
tiles_backward = torch.library.custom_op(
    "anyseq::tiles_backward",
    _gradients,
    mutates_args=(),
    schema=f"({_RETURNING}, {_WANTED}, {SCHEMA}) -> Tensor[]",
)
tiles_backward.register_fake(_fake_gradients)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:TENSORS], *output)
    ctx.plain = inputs[TENSORS:]
    # The key alone would not keep a pattern around a function alive until the backward pass.
    ctx.pattern = combined(ctx.plain[0], ctx.plain[1])


def _backward(
    ctx: Any, out_gradient: Tensor, lse_gradient: Tensor | None
) -> tuple[Tensor | None, ...]:
    *tensors, out, lse = ctx.saved_tensors
    given = Given(*tensors, *ctx.plain)
    wants = Given(*ctx.needs_input_grad)
    asked = bool(wants.bias), bool(wants.gain)
    if _is_followed(out_gradient):
        found = differentiable_gradients(out_gradient, lse_gradient, *asked, given)
    else:
        plain = is_plain(out_gradient, *(one for one in tensors if one is not None))
        backward = _gradients if plain else tiles_backward
        found = backward(out_gradient, lse_gradient, out, lse, *asked, *given)
    names = ["q", "k", "v", *(name for name in ("bias", "gain") if getattr(wants, name))]
    of = dict(zip(names, found, strict=True))
    return tuple(of.get(name) for name in Given._fields)


class Step(torch.autograd.Function):
    """The operator as a step of autograd."""

    forward = staticmethod(_forward)
    setup_context = staticmethod(_setup_context)
    backward = staticmethod(_backward)


def is_plain(*given: Tensor) -> bool:
    """Whether nothing needs operators: no compiler, no mode, no tensors of another kind."""
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return False
    if torch._C._len_torch_dispatch_stack():  # torch has no public question for these two
        return False
    return all(type(one) in (Tensor, torch.nn.Parameter) for one in given)


def _is_followed(gradient: Tensor) -> bool:
    """Whether a backward pass is differentiated again, mapped by either of torch's ways, or has
    dual numbers: then it is to be made of operators that torch knows."""
    if torch.is_grad_enabled() or forward_ad._current_level >= 0:
        return True
    # torch has no public questions for these
    if torch._C._are_functorch_transforms_active():
        return True
    return torch._C._functorch.is_legacy_batchedtensor(gradient)


tiles.register_autograd(_backward, setup_context=_setup_context)
