"""How much of a token is left in another one, if attention is uniform over the keys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyseq.base import check_time
from anyseq.design import Average, Design, Layer, LinearAttention
from anyseq.graph.edges import Array
from anyseq.graph.visible import Visible, degrees, visible
from anyseq.graph.wanted import Wanted

_MOST_PAIRS = 1 << 20
_FEWEST_TOKENS = 16  # whose content is followed, however many tokens there are
_NOTHING = 1e-300  # weights below are taken as 0
_ROUNDING = 1e-9  # relative; sums of products of weights are exact to far less


@dataclass(frozen=True)
class Dilution:
    """The weights of the shortest routes between two different tokens.

    Suppose that every layer attends evenly, and does nothing else: each token is replaced by the
    mean of the tokens that it attends to. For a pair (i, j) of tokens, where j must reach i, take
    the fewest layers after which token i holds anything of x_j, within the depth of the design. The
    weight of the pair is how much of x_j it holds then: the sum, over the routes of that many
    steps, of the product of 1 / (how many tokens the token at that step attends to). If heads
    attend to different tokens, a route chooses one of them at each step. A pair without a route has
    weight 0.

    It measures how far content is diluted before anything is learned: trained attention may put
    more weight, or less, on any route, and a residual connection adds to it. It is not a bound.

    median, smallest: of these weights.
    weaker: the share of pairs whose weight is less than dense attention has in a single layer: one
        over the number of tokens (for the target "causal": of the tokens up to i), BOS included.
    tokens: the tokens j that were followed, evenly spread over the sequence; where not all were,
        `median` and `weaker` are estimates, and `smallest` is that of these.
    """

    median: float
    smallest: float
    weaker: float
    tokens: int


def dilution(design: Design, target: str) -> Dilution | None:
    """The weights of the pairs of a target class, "all" or "causal"; None where a layer is not a
    weighted mean, such as a recurrence, or where there is one token only."""
    wanted = Wanted.of(design, target)
    if design.tokens == 1 or not all(map(_takes_means, design.layer_cycle[: design.depth])):
        return None
    followed = min(design.tokens, max(_FEWEST_TOKENS, _MOST_PAIRS // design.tokens))
    j = np.unique(np.linspace(wanted.bos, wanted.size - 1, followed).astype(np.int64))
    i = np.arange(wanted.size)[:, None]
    asked = (i >= wanted.bos) & (i > j if target == "causal" else i != j)
    weights = _weights(design, j, asked)
    dense = np.broadcast_to(1 / (i + 1 if target == "causal" else wanted.size), asked.shape)
    found = weights[asked]
    return Dilution(
        median=float(np.median(found)),
        smallest=float(found.min()),
        weaker=float(np.mean(found < dense[asked] * (1 - _ROUNDING))),
        tokens=len(j),
    )


def _takes_means(layer: Layer) -> bool:
    return layer.attends or isinstance(layer.mixer, Average | LinearAttention)


def _weights(design: Design, j: Array, asked: Array) -> Array:
    """(size, len(j)): the weight that vertex i has of j when it first has any, where asked."""
    size, cycle = design.size, design.cycle
    means = {
        pattern: [_Mean.of(visible(head, size), size) for head in dict.fromkeys(pattern.heads())]
        for pattern in dict.fromkeys(cycle)
    }
    first, held = np.zeros(asked.shape), np.zeros(asked.shape)
    held[j, np.arange(len(j))] = 1
    # who had something at which place in the cycle: where that does not grow, nothing will
    known = [np.zeros(asked.shape, dtype=bool) for _ in cycle]
    layer = 0
    while layer != design.depth and not first[asked].all():
        check_time()
        place = layer % len(cycle)
        held = sum((mean(held) for mean in means[cycle[place]]), start=np.zeros(asked.shape))
        held[held < _NOTHING] = 0
        here = held > 0
        if not (here & ~known[place]).any():
            break
        known[place] |= here
        np.copyto(first, held, where=first == 0)
        layer += 1
    return first


@dataclass(frozen=True, eq=False)
class _Mean:
    """Every vertex replaced by the mean of those that it attends to; by 0 if there are none."""

    seen: Visible
    share: Array  # (size, 1)

    @classmethod
    def of(cls, seen: Visible, size: int) -> _Mean:
        return cls(seen, 1 / np.maximum(degrees(seen, size), 1)[:, None])

    def __call__(self, values: Array) -> Array:
        mean: Array = self.seen.sums(values) * self.share
        return mean
