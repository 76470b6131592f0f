"""The feed-forward half of a block: one hidden layer of ReLUs, token by token."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.modules.module import _has_any_global_hook

from anyseq.nn.products import linear_map
from anyseq.ops import is_followed, step_refusal

_LARGE = 1 << 17  # numbers of the hidden layer from which on one step is quicker than operators


def feed_forward(
    x: Tensor, up_weight: Tensor, up_bias: Tensor, down_weight: Tensor, down_bias: Tensor
) -> Tensor:
    """ReLU(x W_up^T + b_up) W_down^T + b_down, for x (..., width)."""
    weights = (up_weight, up_bias, down_weight, down_bias)
    shape = (*x.shape[:-1], len(down_weight))
    if _pays_in_one_step(x, weights):
        rows: Tensor = _Step.apply(x, *weights)
        return rows.view(shape)  # a view that the step gave could not be changed in place
    # with all rows in one axis ReLU may write where it reads: of a product of more axes torch gives
    # a view, whose gradient it would copy
    hidden = linear(x.reshape(-1, x.shape[-1]), up_weight, up_bias).relu_()
    return linear(hidden, down_weight, down_bias).view(shape)


def _pays_in_one_step(x: Tensor, weights: tuple[Tensor, ...]) -> bool:
    """Whether all weights learn, so that operators would keep as much (but for the first bias), and
    the hidden layer is so large that it is worth it."""
    return (
        torch.is_grad_enabled()
        and step_refusal(x, *weights) is None  # before sizes: a graph serves many
        and x.numel() * len(weights[0]) >= _LARGE * x.shape[-1]
        and all(weight.requires_grad for weight in weights)
        and not x.is_inference()  # cannot be kept for a backward pass
    )


class _Step(torch.autograd.Function):
    """The output has all rows in one axis. In the backward pass dh = dy W_down is set to 0 in place
    where the ReLU is closed: an operator would ask the system for as much memory again, which takes
    longer than what it computes."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        up_weight: Tensor,
        up_bias: Tensor,
        down_weight: Tensor,
        down_bias: Tensor,
    ) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        hidden = torch.addmm(up_bias, rows, up_weight.t()).relu_()
        ctx.save_for_backward(x, up_weight, up_bias, down_weight, hidden)
        return torch.addmm(down_bias, hidden, down_weight.t())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (dy,) = gradients
        x, up_weight, up_bias, down_weight, hidden = ctx.saved_tensors
        rows, dhidden = x.reshape(-1, x.shape[-1]), dy @ down_weight
        if is_followed(dy):
            hidden = linear(rows, up_weight, up_bias).relu()
            dhidden = torch.ops.aten.threshold_backward(dhidden, hidden, 0)
        else:
            torch.ops.aten.threshold_backward.grad_input(dhidden, hidden, 0, grad_input=dhidden)
        dx = (dhidden @ up_weight).view(x.shape) if ctx.needs_input_grad[0] else None
        return dx, dhidden.mT @ rows, dhidden.sum(0), dy.mT @ hidden, dy.sum(0)


class FeedForward(nn.Module):
    """ReLU(x W_1 + b_1) W_2 + b_2; the residual is the block's."""

    def __init__(
        self,
        dim: int,
        hidden: int,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.dim = dim
        self.up_proj = nn.Linear(dim, hidden, dtype=dtype, device=device)
        self.down_proj = nn.Linear(hidden, dim, dtype=dtype, device=device)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, tokens, dim) -> (batch, tokens, dim)."""
        if not (torch.compiler.is_compiling() or _has_any_global_hook()):
            up, down = (linear_map(part, x.dtype) for part in (self.up_proj, self.down_proj))
            if up and down and up[1] is not None and down[1] is not None:
                return feed_forward(x, up[0], up[1], down[0], down[1])
        # somebody put something in place of a linear map, or around it: it is to be called
        out: Tensor = self.down_proj(self.up_proj(x).relu())
        return out
