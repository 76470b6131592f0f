"""Value map: one layer per contextual id, which replaces the token by its target.

The layer of id a adds (target - current)·bump(u·z), where with half-width g <= half the id gap

    bump(t) = 2/g · [ReLU(t-a+g) - ReLU(t-a+g/2) - ReLU(t-a-g/2) + ReLU(t-a-g)]

is 1 on [a-g/2, a+g/2] and 0 off [a-g, a+g]. At t = a its terms are 2 - 1 - 0 + 0: exact.

Ids go in descending order: a token meets only layers above it, whose ReLUs are all off, until its
own; then it is a target, and every target lies below every window (the caller ensures that), so it
meets no other. Only one rounding is left, of target - current, as large as half an ulp of the id:
`written` is what the layer really leaves behind. That is why ids are rescaled first.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from anyseq.construct.gadgets.blank import blank_feed_forward
from anyseq.nn import Layers


def written(current: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The values in the network after the value map, rounding included."""
    return current + (targets - current)


def value_map(
    *,
    ids: torch.Tensor,
    current: torch.Tensor,
    targets: torch.Tensor,
    half_width: float,
    digits: Sequence[int],
) -> Layers:
    """ids (A,), current and targets (A, width): one layer each, by descending id."""
    order = ids.argsort(descending=True)
    ids, change = ids[order], (targets - current)[order]
    layers = blank_feed_forward(len(ids), 4, len(digits))
    layers.up_weight[:] = torch.tensor(digits, dtype=torch.float64)
    edges = half_width * torch.tensor([1.0, 0.5, -0.5, -1.0], dtype=torch.float64)
    layers.up_bias[:] = edges - ids[:, None]
    signs = torch.tensor([1.0, -1.0, -1.0, 1.0], dtype=torch.float64)
    layers.down_weight[:] = change[:, :, None] * (signs * (2.0 / half_width))
    return Layers(feedforward=layers)
