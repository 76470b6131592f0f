"""Linear maps that are products of matrices and nothing else, which can be made together.

Small layers spend much of their time on calls, forward and backward, so queries, keys and values
are made by one product instead of three, or the whole layer in one step. The weights of that
product are put together every time, and kept until the backward pass: with many rows, and few
weights, that is nothing. Modules that somebody has changed are called as they are, and compilers
and torch.func have their own ways.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import _has_any_global_hook

from anyseq.ops import HeadWeights

_MANY_ROWS = 64
_FEW_WEIGHTS = 1 << 16  # of each projection
_MOST = 1 << 22  # numbers of a projection: working memory holds six times as many, and keeps them
_PLAIN = (nn.Parameter, torch.Tensor)
_NONE = object()


def plain_weights(
    modules: Mapping[str, nn.Module | None], x: torch.Tensor, inner: int
) -> HeadWeights | None:
    """The weights of q_proj, k_proj, v_proj and o_proj, from dim to `inner` features of
    x (batch, tokens, dim), and back; None unless they are linear maps of that kind, with a bias in
    the first at most, and small."""
    batch, tokens, dim = x.shape
    if (
        torch.compiler.is_compiling()  # first: a graph is to serve many lengths
        or batch * tokens < _MANY_ROWS
        or dim * inner > _FEW_WEIGHTS
        or batch * tokens * inner > _MOST
        or not _is_plain(x, x.dtype)
        or torch._C._are_functorch_transforms_active()  # there is no public question
        or (x.is_inference() and torch.is_grad_enabled())  # cannot be kept for a backward pass
        or _has_any_global_hook()
    ):
        return None
    found: list[Any] = []
    for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
        weight, bias = linear_map(modules.get(name), x.dtype) or (None, None)
        if (
            weight is None
            or weight.shape != ((dim, inner) if name == "o_proj" else (inner, dim))
            or not (bias is None or name == "q_proj")
        ):
            return None
        found += [weight, bias] if name == "q_proj" else [weight]
    return HeadWeights(*found)


def linear_map(
    module: nn.Module | None, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor | None] | None:
    """Weight and bias, if calling the module does nothing but multiply and add them: no subclass,
    no hook (global ones are not asked for), no parametrisation, nothing in place of a parameter."""
    if type(module) is not nn.Linear:
        return None
    own = module.__dict__  # attributes of modules take long to find
    weight, bias = (own["_parameters"].get(part, _NONE) for part in ("weight", "bias"))
    if (
        not _is_plain(weight, dtype)
        or not (bias is None or _is_plain(bias, dtype))
        or "forward" in own
        or own["_forward_hooks"]
        or own["_forward_pre_hooks"]
        or own["_backward_hooks"]
        or own["_backward_pre_hooks"]
    ):
        return None
    return weight, bias


def _is_plain(part: torch.Tensor, dtype: torch.dtype) -> bool:
    return type(part) in _PLAIN and part.is_cpu and part.dtype is dtype
