"""Which tokens each token gets content from in a layer that is not attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from anyseq.errors import InvalidArgument
from anyseq.patterns import Causal, Full, Pattern, PatternLike, as_pattern, evaluated


@dataclass(frozen=True)
class Sight:
    """Token i gets content from token j if the pattern allows it, and with `causal` if also j <=
    i."""

    pattern: Pattern
    causal: bool

    @classmethod
    def of(cls, pattern: PatternLike, causal: bool) -> Sight:
        """No pattern means Full()."""
        if not isinstance(causal, bool):
            raise InvalidArgument(f"causal={causal!r}: expected True or False")
        return cls(Full() if pattern is None else as_pattern(pattern), causal)

    @classmethod
    def without_heads(cls, name: str, pattern: PatternLike, causal: bool) -> Sight:
        """For a mixer without heads, which needs a single mask."""
        sight = cls.of(pattern, causal)
        if sight.pattern.differs or len(sight.pattern.heads()) > 1:
            raise InvalidArgument(
                f"pattern={sight.pattern!r}: differs by head or batch row, and {name} has one mask "
                "for all; expected a pattern without PerHead whose mask_mod depends on i and j only"
            )
        return sight

    @property
    def span(self) -> Literal["all", "past"] | None:
        """Whether it is all tokens, or all up to the token itself; None if it is something else."""
        if self.pattern == Full():
            return "past" if self.causal else "all"
        return "past" if self.pattern == Causal() else None

    def mask(
        self, first: int, n: int, device: torch.device, *, batch: int = 1, heads: int = 1
    ) -> torch.Tensor:
        """(1 or batch, 1 or heads, n - first, n) bool: which of all n tokens the tokens first, ...,
        n-1 get content from."""
        b, h = torch.arange(batch, device=device), torch.arange(heads, device=device)
        j = torch.arange(n, device=device)
        i = j[first:, None]
        told = (b[:, None, None, None], h[:, None, None], i, j)
        mask = evaluated(self.pattern.at(n), *told)
        mask = mask.expand(torch.broadcast_shapes(mask.shape, (1, 1, n - first, n)))
        return mask & (j <= i) if self.causal else mask
