"""torch's own layer, and in torch's operators what its attention has no argument for."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.functional import dropout, linear, scaled_dot_product_attention

from anyseq.experiments.transformer_xl import DistanceScores


class TorchLayer(nn.TransformerEncoderLayer):
    """A TransformerEncoderLayer with its layer norms first.

    distances: scores of distances that depend on queries, as Transformer-XL has them: a mask of
        numbers for SDPA. A gain multiplies weights after the softmax, which SDPA does not return:
        so the formula is used.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        hidden: int,
        *,
        dropout: float,
        distances: DistanceScores | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            dim, heads, hidden, dropout=dropout, batch_first=True, norm_first=True, dtype=dtype
        )
        self.distances = distances

    def forward(  # type: ignore[override]
        self,
        x: torch.Tensor,
        mask: torch.Tensor | None = None,
        gain: torch.Tensor | None = None,
        padding: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """(batch, tokens, dim) -> (batch, tokens, dim).

        mask: (tokens, tokens), with heads before, or with those and the batch before; True where no
            token attends, or numbers that are added to the scores.
        gain: of the same shapes.
        padding: (batch, tokens) bool, only without a gain and distances.
        """
        if gain is None and self.distances is None:
            y: torch.Tensor = super().forward(x, whole(mask, len(x)), padding)
            return y
        x = x + self.dropout1(self._attention(self.norm1(x), mask, gain))
        z: torch.Tensor = x + self._ff_block(self.norm2(x))
        return z

    def _attention(
        self, x: torch.Tensor, mask: torch.Tensor | None, gain: torch.Tensor | None
    ) -> torch.Tensor:
        own: Any = self.self_attn
        packed = linear(x, own.in_proj_weight, own.in_proj_bias)
        q, k, v = packed.unflatten(-1, (3, own.num_heads, own.head_dim)).permute(2, 0, 3, 1, 4)
        scale, n = own.head_dim**-0.5, x.shape[1]
        if mask is not None and mask.dtype == torch.bool:
            mask = x.new_zeros(mask.shape).masked_fill(mask, -torch.inf)
        if self.distances is not None:
            scores = self.distances.bias(q, scale, n, 0)
            mask = scores if mask is None else scores + mask
        share = own.dropout if self.training else 0.0
        if gain is None:
            seen = scaled_dot_product_attention(q, k, v, mask, share)
        else:
            scores = (q * scale) @ k.mT
            weights = (scores if mask is None else scores + mask).softmax(-1)
            seen = (dropout(weights, share) * gain) @ v
        out: torch.Tensor = own.out_proj(seen.transpose(1, 2).flatten(2))
        return out


def whole(mask: torch.Tensor | None, batch: int) -> torch.Tensor | None:
    """A mask as torch's layers want it: one for each head goes once through the batch."""
    if mask is None or mask.ndim == 2:
        return mask
    if mask.ndim == 3:
        mask = mask.expand(batch, *mask.shape)
    return mask.flatten(0, 1)
