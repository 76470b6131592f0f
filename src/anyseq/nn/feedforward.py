"""The feed-forward half of a block: one hidden layer of ReLUs, token by token."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear


def feed_forward(
    x: Tensor, up_weight: Tensor, up_bias: Tensor, down_weight: Tensor, down_bias: Tensor
) -> Tensor:
    """ReLU(x W_up^T + b_up) W_down^T + b_down, for x (..., width)."""
    return linear(linear(x, up_weight, up_bias).relu(), down_weight, down_bias)


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
        out: Tensor = self.down_proj(self.up_proj(x).relu())
        return out
