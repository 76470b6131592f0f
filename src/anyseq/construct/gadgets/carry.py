"""Carried maximum: the largest id travels in a feature m of its own, so ids do not grow on the way.

Notation as in `anyseq.construct.contextual.sparse`. First m += ReLU(u·z - θ): m = M for γ(n), and 0
for all other tokens. Then in every layer, with keys u·z_j + S m_j and values m_j, two heads

    +1 · constant query                  the m of the largest key that token k attends to
    -1 · query λ(m_k - δ/2)              the same if m_k = M; if m_k = 0, the m of the smallest key

M >= δ and Sδ exceeds every id: the largest key has m = M if any visible token has; the smallest,
where k itself holds 0, has m = 0. So m_k stays M, or becomes the largest visible m, exactly: keys
are all different, since ids are, and one key gets all the weight. Last, m goes into feature 0: u·z
+= S m, m = 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from anyseq.construct.gadgets.blank import blank_attention, blank_feed_forward, closed
from anyseq.nn import FeedForwardLayers, Layers


def take_above(*, threshold: float, digits: Sequence[int], at: int) -> FeedForwardLayers:
    """Feature `at` of every token grows by ReLU(u·z - threshold)."""
    layers = blank_feed_forward(1, 4, len(digits))
    layers.up_weight[0, 0] = torch.tensor(digits, dtype=torch.float64)
    layers.up_bias[0, 0] = -threshold
    layers.down_weight[0, at, 0] = 1.0
    return layers


def carry(
    *, layers: int, step: float, digits: Sequence[int], at: int, shift: int, gap: float, lift: float
) -> list[Layers]:
    """The layers that hand feature `at` on; then ids grow by shift·m and by the constant `lift`."""
    width = len(digits)
    keys = torch.tensor(digits, dtype=torch.float64)
    keys[at] = shift
    attention = blank_attention(layers, heads=2, size=1, width=width)
    sharp = gap * 2 / step**2
    attention.q_bias[:, 0] = gap / step
    attention.q_weight[:, 1, at] = sharp
    attention.q_bias[:, 1] = -sharp * step / 2
    attention.k_weight[:] = keys
    attention.v_weight[:, :, at] = 1.0
    attention.o_weight[:, at] = torch.tensor([1.0, -1.0], dtype=torch.float64)
    feedforward = blank_feed_forward(1, 4, width)
    feedforward.up_weight[0, 0, at] = 1.0
    feedforward.down_weight[0, 0, 0] = shift
    feedforward.down_weight[0, at, 0] = -1.0
    feedforward.down_bias[0, 0] = lift
    return closed(attention, feedforward)
