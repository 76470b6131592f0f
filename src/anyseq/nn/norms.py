"""Norms with a learned scale, as blocks and heads have them: torch's own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, cast

import torch
from torch import nn

from anyseq.base import one_of, positive

NormKind = Literal["layernorm", "rmsnorm"]
NORM_KINDS = ("layernorm", "rmsnorm")


@dataclass(frozen=True)
class Norms:
    """What kind of norms a model has.

    eps: what is added to the variance; torch's own unless given, 1e-5 for layer norms and the
        rounding of 1 for RMS norms.
    bias: whether layer norms add a learned vector.
    """

    kind: NormKind = "layernorm"
    eps: float | None = None
    bias: bool = True

    def __post_init__(self) -> None:
        one_of("norms", self.kind, NORM_KINDS)
        if self.eps is not None:
            positive("eps", self.eps)

    @classmethod
    def of(cls, given: str | Norms) -> Norms:
        """A kind stands for the usual norms of that kind."""
        return given if isinstance(given, Norms) else cls(cast(NormKind, given))

    def as_kind(self, kind: str) -> Norms:
        """The same with another kind."""
        return self if kind == self.kind else replace(self, kind=cast(NormKind, kind))

    def make(
        self,
        dim: int,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> nn.Module:
        """One norm over the last axis, of size dim."""
        if self.kind == "rmsnorm":
            return nn.RMSNorm(dim, eps=self.eps, dtype=dtype, device=device)
        eps = 1e-5 if self.eps is None else self.eps
        return nn.LayerNorm(dim, eps=eps, bias=self.bias, dtype=dtype, device=device)
