"""One attention layer of a design, with weights to be set by hand."""

from __future__ import annotations

import torch
from torch.nn.functional import pad

import anyseq as aq


class Heads:
    """Heads over features (B, tokens + bos, features), by aq.nn.Attention itself: the design's
    pattern of that layer, position, probability map and sinks.

    At first all weights and tables are 0, and gains are 1. What the heads give goes into further
    features of the stream, one head after another.
    """

    def __init__(
        self, design: aq.Design, layer: int, *, features: int, heads: int, size: int
    ) -> None:
        self.features, self.heads, self.size = features, heads, size
        own = design.layer_cycle[layer % len(design.layer_cycle)]
        self.attention = aq.nn.Attention(
            features + heads * size,
            heads,
            size,
            pattern=own.sees,
            prob_map=own.probability,
            position=own.position,
            tokens=design.size,
            sinks=own.sinks,
            scale=1.0,
            dtype=torch.float64,
        ).requires_grad_(False)
        for name, weight in self.attention.named_parameters():
            weight.fill_(1.0 if "gain" in name else 0.0)
        self.attention.o_proj.weight[features:] = torch.eye(heads * size)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """(B, tokens + bos, features) -> (B, tokens + bos, heads, size)."""
        stream: torch.Tensor = self.attention(pad(x, (0, self.heads * self.size)))
        return stream[..., self.features :].view(*x.shape[:2], self.heads, self.size)

    def tables(self) -> dict[str, torch.Tensor]:
        """What the position learns: tables of biases and gains."""
        return dict(self.attention.position.named_parameters())

    def sinks(self) -> list[torch.Tensor]:
        """The scores of the sinks, if there are any."""
        return [] if self.attention.sink is None else [self.attention.sink]

    def weight(self, name: str) -> torch.Tensor:
        """(heads, size, features) of q, k or v, to be written into."""
        whole = self.attention.get_parameter(f"{name}_proj.weight").detach()
        return whole.view(self.heads, self.size, -1)[..., : self.features]
