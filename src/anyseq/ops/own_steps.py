"""Steps of autograd of our own, which write where they read: when they may be taken."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad

_DTYPES = (torch.float32, torch.float64)
_PLAIN = (Tensor, torch.nn.Parameter)


def step_refusal(*parts: Tensor) -> str | None:
    """Why a step that works with these, all of the first one's type, must be left to operators, or
    None."""
    x = parts[0]
    if not x.is_cpu or x.dtype not in _DTYPES:
        return f"it computes in float32 and float64 on a CPU, not {x.dtype} on {x.device}"
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return "a graph is to hold operators"
    for part in parts:
        if type(part) not in _PLAIN:
            return "tensors of another kind want operators that they know"
    # torch has no public questions for these; torch.autograd.Function asks the first one itself
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return "torch.func and dual numbers want operators that they know"
    if torch._C._len_torch_dispatch_stack():
        return "who watches operators may keep what they write to"
    if torch.is_autocast_enabled("cpu"):
        return "autocast chooses types operator by operator"
    return None


def is_followed(gradient: Tensor) -> bool:
    """Whether a backward pass is differentiated again, mapped by either of torch's ways, or has
    dual numbers: then it is to be written out in operators."""
    if torch.is_grad_enabled() or forward_ad._current_level >= 0:
        return True
    # torch has no public questions for these
    if torch._C._are_functorch_transforms_active():
        return True
    return torch._C._functorch.is_legacy_batchedtensor(gradient)


def any_learns(*parts: Tensor | None) -> bool:
    """Whether some of them, None left out, want a gradient."""
    return any(part is not None and part.requires_grad for part in parts)
