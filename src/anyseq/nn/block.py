"""One block: a mixer half and a feed-forward half, each with its residual."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import nn

from anyseq.base import one_of
from anyseq.errors import InvalidArgument
from anyseq.nn.attention import check_dropout
from anyseq.nn.feedforward import FeedForward
from anyseq.nn.mixers import Mixer


class Block(nn.Module):
    """x + mixer(x), then x + feedforward(x); a half that is None adds nothing.

    norm="pre" puts a layer norm before each half, as in trained models; "none" is the papers'
    block. `dropout` acts on what each half adds. The same class serves training and construction.
    """

    def __init__(
        self,
        mixer: Mixer | None = None,
        feedforward: FeedForward | None = None,
        *,
        norm: Literal["pre", "none"] = "none",
        dropout: float = 0.0,
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
        self.dropout = nn.Dropout(check_dropout(dropout))

    def forward(self, x: torch.Tensor, **told: Any) -> torch.Tensor:
        """(batch, tokens, dim) -> (batch, tokens, dim).

        told: what the mixer is told besides x, by name: key_mask, cache; to Attention also bias
        and gain.
        """
        mixer, feedforward, dropout = self.mixer, self.feedforward, self.dropout
        if mixer is not None:
            y = mixer(self.mixer_norm(x), **told)
            x = x + (dropout(y) if dropout.p else y)
        if feedforward is not None:
            y = feedforward(self.feedforward_norm(x))
            x = x + (dropout(y) if dropout.p else y)
        return x


def _norm(norm: str, half: Mixer | FeedForward | None) -> nn.Module:
    if norm == "none" or half is None:
        return nn.Identity()
    like = next(half.parameters())
    return nn.LayerNorm(half.dim, dtype=like.dtype, device=like.device)
