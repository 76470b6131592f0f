"""The feed-forward half of a block: one hidden layer of ReLUs, token by token."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import linear


def feed_forward(
    x: torch.Tensor,
    up_weight: torch.Tensor,
    up_bias: torch.Tensor,
    down_weight: torch.Tensor,
    down_bias: torch.Tensor,
) -> torch.Tensor:
    """ReLU(x W_up^T + b_up) W_down^T + b_down, for x (..., width)."""
    # with all rows in one axis ReLU may write where it reads: of a product of more axes torch gives
    # a view, whose gradient it would copy
    hidden = linear(x.reshape(-1, x.shape[-1]), up_weight, up_bias).relu_()
    return linear(hidden, down_weight, down_bias).view(*x.shape[:-1], len(down_weight))


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

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, dim) -> (batch, tokens, dim)."""
        up, down = self.up_proj, self.down_proj
        return feed_forward(x, up.weight, up.bias, down.weight, down.bias)
