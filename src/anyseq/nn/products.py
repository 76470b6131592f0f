"""Projections that are products of matrices and nothing else, which can be made together.

Small layers spend much of their time on calls, forward and backward, so queries, keys and values
are made by one product instead of three, or the whole layer in one step. The weights of that
product are put together every time, and kept until the backward pass: with many rows, and few
weights, that is nothing. Modules that somebody has changed are called as they are, and compilers
and torch.func have their own ways.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import _has_any_global_hook

from anyseq.ops import HeadWeights

_MANY_ROWS = 64
_FEW_WEIGHTS = 1 << 16  # of each projection
_PLAIN = (torch.Tensor, nn.Parameter)


def plain_weights(
    q_proj: Any, k_proj: Any, v_proj: Any, o_proj: Any, x: torch.Tensor, inner: int
) -> HeadWeights | None:
    """The weights of four projections, from dim to `inner` features of x (batch, tokens, dim), and
    back; None unless they are linear maps of that kind, with a bias in the first at most, and
    small."""
    batch, tokens, dim = x.shape
    if (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()  # there is no public question
        or batch * tokens < _MANY_ROWS
        or dim * inner > _FEW_WEIGHTS
        or not _is_plain(x, x.dtype)
        or (x.is_inference() and torch.is_grad_enabled())  # cannot be kept for a backward pass
        or _has_any_global_hook()
    ):
        return None
    modules = (q_proj, k_proj, v_proj, o_proj)
    if not all(map(_is_linear, modules)):
        return None
    (q, q_bias), *others = ((module.weight, module.bias) for module in modules)
    (k, v, o), biases = zip(*others, strict=True)
    if (
        q.shape != (inner, dim)
        or not q.shape == k.shape == v.shape
        or o.shape != (dim, inner)
        or any(bias is not None for bias in biases)
        or not all(_is_plain(part, x.dtype) for part in (q, k, v, o))
        or not (q_bias is None or _is_plain(q_bias, x.dtype))
    ):
        return None
    return HeadWeights(q, q_bias, k, v, o)


def _is_plain(part: torch.Tensor, dtype: torch.dtype) -> bool:
    return type(part) in _PLAIN and part.is_cpu and part.dtype is dtype


def _is_linear(module: Any) -> bool:
    """Whether to call it is to apply the map."""
    if type(module) is not nn.Linear:
        return False
    own = module.__dict__
    return not (
        "forward" in own
        or own["_forward_hooks"]
        or own["_forward_pre_hooks"]
        or own["_backward_hooks"]
        or own["_backward_pre_hooks"]
    )
