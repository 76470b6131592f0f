"""From features to logits."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import linear

from anyseq.base import one_of
from anyseq.nn.feedforward import GATED, PLAIN
from anyseq.nn.norms import Norms

HEADS = ("tied", "untied", "masked-lm", "masked-lm-untied", "none")


class LanguageHead(nn.Module):
    """x W_V^T, (batch, tokens, dim) -> (batch, tokens, vocab).

    kind: "tied", W_V is the embedding; "untied", it is a matrix of its own; "masked-lm", x becomes
        N(σ(x W + b)) first, W_V is the embedding and a bias is added, as BERT and ModernBERT have
        it; "masked-lm-untied", the same with a matrix of its own.
    """

    def __init__(
        self,
        kind: str,
        dim: int,
        vocab: int,
        *,
        norms: Norms,
        activation: str,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.activation = (PLAIN | GATED)[activation]
        self.weight: nn.Parameter | None = None
        self.bias: nn.Parameter | None = None
        self.dense: nn.Linear | None = None
        self.norm: nn.Module | None = None
        if kind.endswith("untied"):
            own = nn.Linear(dim, vocab, bias=False, dtype=dtype, device=device)
            self.weight = nn.Parameter(own.weight)
        if kind.startswith("masked-lm"):
            self.dense = nn.Linear(dim, dim, dtype=dtype, device=device)
            self.norm = norms.make(dim, dtype, device)
            self.bias = nn.Parameter(torch.zeros(vocab, dtype=dtype, device=device))

    @classmethod
    def of(cls, kind: str, dim: int, vocab: int, **options: object) -> LanguageHead | None:
        """The head of that kind; None for "none"."""
        if one_of("head", kind, HEADS) == "none":
            return None
        return cls(kind, dim, vocab, **options)  # type: ignore[arg-type]

    def forward(self, x: torch.Tensor, embedding: torch.Tensor) -> torch.Tensor:
        """embedding: (vocab, dim)."""
        if self.dense is not None and self.norm is not None:
            x = self.norm(self.activation(self.dense(x)))
        return linear(x, embedding if self.weight is None else self.weight, self.bias)
