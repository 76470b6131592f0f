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
from anyseq.nn.norms import Norms

BlockNorm = Literal["pre", "post", "sandwich", "none"]
NORMS = ("pre", "post", "sandwich", "none")


class Block(nn.Module):
    """x + mixer(x), then x + feedforward(x); a half that is None adds nothing.

    norm: where the norms N of each half h are.
        "none": x + h(x), the papers' block.
        "pre": x + h(N(x)), as in most trained models.
        "post": N(x + h(x)), as in the first Transformer and in BERT.
        "sandwich": x + N'(h(N(x))), as in Gemma 2.

    norms: their kind, "layernorm" or "rmsnorm", or `Norms` with more about it. `dropout` acts on
    what each half adds. The same class serves training and construction.
    """

    def __init__(
        self,
        mixer: Mixer | None = None,
        feedforward: FeedForward | None = None,
        *,
        norm: BlockNorm = "none",
        norms: str | Norms = "layernorm",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        one_of("norm", norm, NORMS)
        if mixer is not None and feedforward is not None and mixer.dim != feedforward.dim:
            raise InvalidArgument(
                f"mixer has dim {mixer.dim}, feedforward has {feedforward.dim}; expected equal ones"
            )
        self.mixer, self.feedforward, self.norm = mixer, feedforward, norm
        kind = Norms.of(norms)
        self.mixer_norm = _norm(kind, norm != "none", mixer)
        self.feedforward_norm = _norm(kind, norm != "none", feedforward)
        self.mixer_out_norm = _norm(kind, norm == "sandwich", mixer)
        self.feedforward_out_norm = _norm(kind, norm == "sandwich", feedforward)
        self.dropout = nn.Dropout(check_dropout(dropout))

    def forward(self, x: torch.Tensor, **told: Any) -> torch.Tensor:
        """(batch, tokens, dim) -> (batch, tokens, dim).

        told: the mixer's arguments besides x, by name: key_mask, cache; for Attention also
            document_ids, positions, bias and gain.
        """
        mixer, feedforward, dropout = self.mixer, self.feedforward, self.dropout
        post = self.norm == "post"
        if mixer is not None:
            y = mixer(x if post else self.mixer_norm(x), **told)
            y = self.mixer_out_norm(y)
            x = x + (dropout(y) if dropout.p else y)
            x = self.mixer_norm(x) if post else x
        if feedforward is not None:
            y = feedforward(x if post else self.feedforward_norm(x))
            y = self.feedforward_out_norm(y)
            x = x + (dropout(y) if dropout.p else y)
            x = self.feedforward_norm(x) if post else x
        return x


def _norm(norms: Norms, wanted: bool, half: Mixer | FeedForward | None) -> nn.Module:
    if not wanted or half is None:
        return nn.Identity()
    like = next(half.parameters())
    return norms.make(half.dim, like.dtype, like.device)
