"""One hop of slots: what attention does, exactly.

In a hop a head moves one slot: vertex v takes it from u = u(v), a vertex that v attends to and that
has it. Places are forms p_w in the features, 1 at vertex w and 0 at all others. So the scores of
keys w can be

    λ (2 u(v) w - w²) = λ u(v)² - λ (w - u(v))²,

highest for w = u(v) and lower by λ or more for others. Only ALiBi's biases are not 0: they lie
between -vertices and 0, and with λ >= ZERO_WEIGHT_GAP + vertices the gap is at least
ZERO_WEIGHT_GAP still. So all others get weight 0, exactly: by softmax and top-k, by hardmax, and by
sparsemax and entmax15, which ask for gaps of 1 and 2. A sink at -2λ gets nothing either. Rotary
turns queries and keys; since they depend on the position only, they are turned back beforehand. So
a copy of the slot arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from anyseq.base import ZERO_WEIGHT_GAP, power_of_two_at_least
from anyseq.construct.gathering.heads import Heads, base_of
from anyseq.construct.gathering.schedule import Taking
from anyseq.nn import AttentionLayers
from anyseq.positions import Rotary


def hop_layer(
    heads: Heads,
    takings: Sequence[Taking],
    forms: torch.Tensor,
    features: int,
    start: Callable[[Taking, int], int],
    arrival: Callable[[Taking, int], int],
    *,
    spare: float = 1.0,
) -> AttentionLayers:
    """forms: (vertices, width). start, arrival: where each feature of a slot is read and written.
    spare: times the gap that exact places need."""
    layer, vertices = heads.blank(forms.shape[1]), heads.vertices
    gap = power_of_two_at_least(spare * (ZERO_WEIGHT_GAP + vertices))
    base = base_of(heads.design.position)
    for taking in takings:
        rows = heads.rows(heads.mover(taking.slot, taking.part))
        queries = torch.zeros(vertices, heads.size, dtype=torch.float64)
        keys = torch.zeros(vertices, heads.size, dtype=torch.float64)
        for vertex in range(vertices):
            queries[vertex, 0] = 2 * gap * taking.source.get(vertex, 0)
            queries[vertex, 1] = -gap
            keys[vertex, 0], keys[vertex, 1] = vertex, vertex**2
            if isinstance(base, Rotary):
                queries[vertex] = base.turn(queries[vertex][None], -vertex)[0]
                keys[vertex] = base.turn(keys[vertex][None], -vertex)[0]
        layer.q_weight[0, rows] = queries.T @ forms
        layer.k_weight[0, rows] = keys.T @ forms
        for feature in range(features):
            layer.v_weight[0, rows.start + feature, start(taking, feature)] = 1.0
            layer.o_weight[0, arrival(taking, feature), rows.start + feature] = 1.0
    if layer.sink is not None:
        layer.sink.fill_(-2 * gap)
    return layer
