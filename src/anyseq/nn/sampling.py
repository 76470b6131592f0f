"""How the next id is chosen from logits."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from anyseq.base import at_least_one, finite, non_negative
from anyseq.errors import InvalidArgument


@dataclass(frozen=True)
class Sampling:
    """The arguments of `Transformer.generate` that say how."""

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        non_negative("temperature", self.temperature)
        if self.top_k is not None:
            at_least_one("top_k", self.top_k)
        for name in ("top_p", "min_p"):
            share = getattr(self, name)
            if share is not None and not 0 < finite(name, share) <= 1:
                raise InvalidArgument(f"{name}={share!r}: expected a number in (0, 1]")
        filters = [name for name in ("top_k", "top_p", "min_p") if getattr(self, name) is not None]
        if self.temperature == 0 and filters:
            raise InvalidArgument(
                f"{filters[0]}: temperature=0 takes the likeliest id and draws none; give a "
                "temperature, such as 1.0"
            )

    def choose(self, logits: torch.Tensor) -> torch.Tensor:
        """(batch,) ids from logits (batch, vocab)."""
        if self.temperature == 0:
            return logits.argmax(-1)
        probability = self.probabilities(logits)
        return torch.multinomial(probability, 1, generator=self.generator)[:, 0]

    def probabilities(self, logits: torch.Tensor) -> torch.Tensor:
        """(batch, vocab) what ids are drawn with; they need not sum to 1."""
        # half precision has too few digits to add up a vocabulary
        wide = torch.promote_types(logits.dtype, torch.float32)
        p = (logits.to(wide) / self.temperature).softmax(-1)
        least = torch.zeros_like(p[:, :1])
        ordered = p.sort(-1, descending=True).values
        if self.top_k is not None:
            least = ordered[:, min(self.top_k, p.shape[1]) - 1, None]
        if self.top_p is not None:
            # an id is among them if those before it have not got so far
            inside = ordered.cumsum(-1) - ordered < self.top_p
            last = ordered.masked_fill(~inside, torch.inf).amin(-1, keepdim=True)
            least = torch.maximum(least, last)
        if self.min_p is not None:
            least = torch.maximum(least, self.min_p * ordered[:, :1])
        return p.masked_fill(p < least, 0.0)
