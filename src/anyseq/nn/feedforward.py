"""The feed-forward half of a block: one hidden layer, token by token."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear, relu, silu

from anyseq.base import one_of

_gelu_tanh = partial(gelu, approximate="tanh")

PLAIN: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": relu,
    "gelu": gelu,
    "gelu_tanh": _gelu_tanh,
    "silu": silu,
}
"""σ of σ(x W_up) W_down."""

GATED: dict[str, Callable[[Tensor], Tensor]] = {
    "swiglu": silu,
    "geglu": gelu,
    "geglu_tanh": _gelu_tanh,
}
"""σ of (σ(x W_gate) ∘ x W_up) W_down."""

ACTIVATIONS = (*PLAIN, *GATED)


def feed_forward(
    x: Tensor, up_weight: Tensor, up_bias: Tensor, down_weight: Tensor, down_bias: Tensor
) -> Tensor:
    """ReLU(x W_up^T + b_up) W_down^T + b_down, for x (..., width)."""
    return linear(linear(x, up_weight, up_bias).relu(), down_weight, down_bias)


class FeedForward(nn.Module):
    """σ(x W_up + b_up) W_down + b_down, or with a gate (σ(x W_gate) ∘ x W_up) W_down, biases added
    likewise; the residual is the block's.

    activation: "relu", "gelu", "gelu_tanh" (GPT-2's approximation of it), "silu"; with a gate
        "swiglu" (Llama), "geglu" (ModernBERT), "geglu_tanh" (Gemma).
    """

    def __init__(
        self,
        dim: int,
        hidden: int,
        *,
        activation: str = "relu",
        bias: bool = True,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.dim, self.activation = dim, one_of("activation", activation, ACTIVATIONS)
        self.up_proj = nn.Linear(dim, hidden, bias=bias, dtype=dtype, device=device)
        self.down_proj = nn.Linear(hidden, dim, bias=bias, dtype=dtype, device=device)
        self.gate_proj = None
        if activation in GATED:
            self.gate_proj = nn.Linear(dim, hidden, bias=bias, dtype=dtype, device=device)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, tokens, dim) -> (batch, tokens, dim)."""
        if self.gate_proj is None:
            hidden = PLAIN[self.activation](self.up_proj(x))
        else:
            hidden = GATED[self.activation](self.gate_proj(x)) * self.up_proj(x)
        out: Tensor = self.down_proj(hidden)
        return out
