"""The cost of a token in a design: connections, operations, keys that are kept."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from anyseq.base import check_time
from anyseq.design import Design, Layer
from anyseq.graph import keys_attended, keys_kept


@dataclass(frozen=True)
class Costs:
    """The costs of the attention layers: all of them if the design has a depth, else once through
    its cycle. BOS counts as a token.

    layers: how many attend. others: how many do not.
    keys: how many keys a token attends to in a layer, on average over tokens, heads and layers.
    operations: 2 x keys, the multiply-adds of a token in a layer, for each feature of a head and
        each head: one for the scores and one for the weighted values, for each key. Projections
        and feed-forward layers cost the same in all designs and are left out.
    kept: how many keys (and values) a cache has to keep in a layer, on average over the layers,
        while the tokens are read one by one: the most at any time (`anyseq.graph.keys_kept`).
        None if tokens attend to later ones, so that there is no cache, or if no layer attends.
    """

    layers: int
    others: int
    keys: float | None
    kept: float | None

    @property
    def operations(self) -> float | None:
        return None if self.keys is None else 2 * self.keys


def costs(design: Design) -> Costs:
    """Those of a design."""
    layers = _layers(design)
    attending = Counter[Layer]()
    for layer, count in layers.items():
        if layer.attends:
            attending[layer] += count
    total = attending.total()
    others = layers.total() - total
    if not total:
        return Costs(0, others, None, None)
    keys, kept, causal = 0.0, 0, True
    for layer, count in attending.items():
        check_time()
        keys += count * keys_attended(layer.sees, design.size)
        most = keys_kept(layer.sees, design.size)
        causal &= most is not None
        kept += count * (most or 0)
    return Costs(total, others, keys / total, kept / total if causal else None)


def _layers(design: Design) -> Counter[Layer]:
    """How often each layer occurs."""
    cycle = design.layer_cycle
    depth = len(cycle) if design.depth is None else design.depth
    counts = Counter[Layer]()
    for place, layer in enumerate(cycle):
        counts[layer] += max(0, -(-(depth - place) // len(cycle)))
    return +counts
