"""One block: a mixer half and a feed-forward half, each with its residual."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from anyseq.base import one_of
from anyseq.errors import InvalidArgument
from anyseq.nn.attention import Attention
from anyseq.nn.feedforward import FeedForward


class Block(nn.Module):
    """x + mixer(x), then x + feedforward(x); a half that is None adds nothing.

    norm="pre" puts a layer norm before each half, as in trained models; "none" is the papers'
    block. The same class serves training and construction.
    """

    def __init__(
        self,
        mixer: Attention | None = None,
        feedforward: FeedForward | None = None,
        *,
        norm: Literal["pre", "none"] = "none",
    ) -> None:
        super().__init__()
        one_of("norm", norm, ("pre", "none"))
        if mixer is not None and feedforward is not None and mixer.dim != feedforward.dim:
            raise InvalidArgument(
                f"mixer has dim {mixer.dim}, feedforward has {feedforward.dim}; expected equal ones"
            )
        self.mixer, self.feedforward = mixer, feedforward
        self.mixer_norm = _norm(norm, mixer)
        self.feedforward_norm = _norm(norm, feedforward)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, dim) -> (batch, tokens, dim)."""
        if self.mixer is not None:
            x = x + self.mixer(self.mixer_norm(x))
        if self.feedforward is not None:
            x = x + self.feedforward(self.feedforward_norm(x))
        return x


def _norm(norm: str, half: Attention | FeedForward | None) -> nn.Module:
    if norm == "none" or half is None:
        return nn.Identity()
    like = next(half.parameters())
    return nn.LayerNorm(half.dim, dtype=like.dtype, device=like.device)
