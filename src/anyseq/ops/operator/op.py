"""The tiles as operators, which torch.compile keeps whole, with their gradients.

Where nobody looks at operators they are a step of autograd instead, made of the same functions:
torch takes a third of a millisecond longer for a training step with an operator written in Python.

Arguments of both operators:

q (B, H, N, D), k (B, G, M, D), v (B, G, M, E), with G a divisor of H.
mask: bool, four axes, each of full size or 1. key_mask: (B, M) bool. True = may attend.
documents: (B, M) int64.
bias, gain: (H or 1, 2r+1) coefficients of a Toeplitz matrix, or four axes of full size or 1.
seed: () int64, for dropout.
pattern: its key (see `keys`), or "" for none; is_causal: and j <= i.
softcap: 0 for none.
native: by the native kernel, which has to be there, on a CPU; else by torch's operators.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from anyseq.ops import native as native_kernel
from anyseq.ops import tiles as torch_tiles
from anyseq.ops.job import Job, Returning, room_for
from anyseq.ops.operator.formula import differentiable_gradients
from anyseq.ops.operator.keys import combined

_TENSORS = 9  # arguments, before the plain ones


def _job(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    key_mask: Tensor | None,
    documents: Tensor | None,
    bias: Tensor | None,
    gain: Tensor | None,
    seed: Tensor | None,
    pattern: str,
    is_causal: bool,
    scale: float,
    softcap: float,
    dropout_p: float,
    q_offset: int,
) -> Job:
    # Half precision is computed in float32.
    dtype = torch.float64 if q.dtype == torch.float64 else torch.float32
    return Job(
        q.to(dtype),
        k.to(dtype),
        v.to(dtype),
        mask,
        key_mask,
        documents,
        None if bias is None else bias.to(dtype),
        None if gain is None else gain.to(dtype),
        0 if seed is None else int(seed),
        combined(pattern, is_causal),
        scale,
        softcap,
        dropout_p,
        q_offset,
    )


def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    key_mask: Tensor | None,
    documents: Tensor | None,
    bias: Tensor | None,
    gain: Tensor | None,
    seed: Tensor | None,
    pattern: str,
    is_causal: bool,
    scale: float,
    softcap: float,
    dropout_p: float,
    q_offset: int,
    native: bool,
) -> tuple[Tensor, Tensor]:
    """out (B, H, N, E), in the order (B, N, H, E), and lse (B, H, N), in float32 at least."""
    job = _job(
        q, k, v, mask, key_mask, documents, bias, gain, seed, pattern, is_causal, scale, softcap,
        dropout_p, q_offset,
    )  # fmt: skip
    out, lse = native_kernel.forward(job) if native else torch_tiles.forward(job)
    return out.to(q.dtype), lse


tiles = torch.library.custom_op("anyseq::tiles", _forward, mutates_args=())


@tiles.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *arguments: object) -> tuple[Tensor, Tensor]:
    batch, heads, queries, _ = q.shape
    dtype = torch.float64 if q.dtype == torch.float64 else torch.float32
    out = q.new_empty(batch, queries, heads, v.shape[3]).transpose(1, 2)
    return out, q.new_empty(batch, heads, queries, dtype=dtype)


def _gradients(
    out_gradient: Tensor,
    lse_gradient: Tensor | None,
    out: Tensor,
    lse: Tensor,
    wants_bias: bool,
    wants_gain: bool,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    key_mask: Tensor | None,
    documents: Tensor | None,
    bias: Tensor | None,
    gain: Tensor | None,
    seed: Tensor | None,
    pattern: str,
    is_causal: bool,
    scale: float,
    softcap: float,
    dropout_p: float,
    q_offset: int,
    native: bool,
) -> list[Tensor]:
    """The gradients of q, k, v and, where wanted, of bias and gain."""
    job = _job(
        q, k, v, mask, key_mask, documents, bias, gain, seed, pattern, is_causal, scale, softcap,
        dropout_p, q_offset,
    )  # fmt: skip
    dtype = job.q.dtype
    returning = Returning(
        out.to(dtype), lse, out_gradient.to(dtype), lse_gradient, wants_bias, wants_gain
    )
    backward = native_kernel.backward if native else torch_tiles.backward
    found = backward(job, returning)
    sides = [(found.q, q), (found.k, k), (found.v, v)]
    terms = [(found.bias, bias), (found.gain, gain)]
    # In the type of what was given, and in the order of memory that the operator promises: a copy
    # in another type may have lain otherwise.
    return [
        *(
            gradient if gradient.dtype == given.dtype else room_for(given).copy_(gradient)
            for gradient, given in sides
        ),
        *(
            gradient if gradient.dtype == given.dtype else torch.empty_like(given).copy_(gradient)
            for gradient, given in terms
            if gradient is not None and given is not None
        ),
    ]


tiles_backward = torch.library.custom_op("anyseq::tiles_backward", _gradients, mutates_args=())


@tiles_backward.register_fake
def _(
    out_gradient: Tensor,
    lse_gradient: Tensor | None,
    out: Tensor,
    lse: Tensor,
    wants_bias: bool,
    wants_gain: bool,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    key_mask: Tensor | None,
    documents: Tensor | None,
    bias: Tensor | None,
    gain: Tensor | None,
    *arguments: object,
) -> list[Tensor]:
    terms = [bias] if wants_bias and bias is not None else []
    terms += [gain] if wants_gain and gain is not None else []
    return [*map(room_for, (q, k, v)), *map(torch.empty_like, terms)]


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:_TENSORS], *output)
    ctx.plain = inputs[_TENSORS:]
    # The key alone would not keep a pattern around a function alive until the backward pass.
    ctx.pattern = combined(ctx.plain[0], ctx.plain[1])


def _backward(
    ctx: Any, out_gradient: Tensor, lse_gradient: Tensor | None
) -> tuple[Tensor | None, ...]:
    *tensors, out, lse = ctx.saved_tensors
    wants_bias, wants_gain = ctx.needs_input_grad[6:8]
    arguments = (*tensors, *ctx.plain)
    if _is_followed(out_gradient):
        found = differentiable_gradients(
            out_gradient, lse_gradient, wants_bias, wants_gain, *arguments
        )
    else:
        plain = is_plain(out_gradient, *(one for one in tensors if one is not None))
        backward = _gradients if plain else tiles_backward
        found = backward(out_gradient, lse_gradient, out, lse, wants_bias, wants_gain, *arguments)
    dq, dk, dv, *rest = found
    dbias = rest.pop(0) if wants_bias else None
    dgain = rest.pop(0) if wants_gain else None
    return (dq, dk, dv, None, None, None, dbias, dgain, None, *(None for _ in ctx.plain))


class Step(torch.autograd.Function):
    """The operator as a step of autograd."""

    forward = staticmethod(_forward)
    setup_context = staticmethod(_setup_context)
    backward = staticmethod(_backward)


def is_plain(*given: Tensor) -> bool:
    """Whether nobody looks at operators: no compiler, no mode, no tensors of another kind."""
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
