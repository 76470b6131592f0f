"""What layers that are not attention tell apart: an upper bound, whatever their weights.

A layer of each kind is a function of the labels and colours of the tokens that it depends on. If
two vertices agree in that, every layer of the kind gives them equal outputs:

- a convolution adds W_o x_(i-o), with zeros outside the sequence: the colours at each offset;
- a recurrence runs through x_0, ..., x_i from a fixed state: the colours of all of them, in order;
- linear attention, raw, sums functions of the token's own and the other token's colour: how many
there are of
  each; normalised, or an average: their shares;
- a bilinear map has numbers of its own for every position: the position.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from anyseq.design import Average, Bilinear, Layer, LinearAttention, Mixer
from anyseq.graph.edges import Array, edges_of
from anyseq.graph.labels import by_offset
from anyseq.graph.rounds import Head
from anyseq.graph.seen import Seen
from anyseq.graph.tables import LabelledEdges, Tables


def averages(layer: Layer) -> bool:
    """Whether the weights of a row sum to 1, as far as the map goes: softmax without a sink, an
    average, normalised linear attention."""
    mixer = layer.mixer
    if isinstance(mixer, LinearAttention):
        return mixer.normalised
    return isinstance(mixer, Average) or (layer.attends and not layer.sinks)


def shown(layer: Layer, mixer: Mixer, size: int, most: int) -> list[Head]:
    """What the layer shows of the colours."""
    heads = [edges_of(head, size, most) for head in dict.fromkeys(layer.sees.heads())]
    if isinstance(mixer, Bilinear):
        return [_Named(edges.degrees > 0) for edges in heads]
    offset = np.arange(1 - size, size)
    plain = np.zeros_like(offset)
    # a sum by offset has, as it were, a gain for each; the others know no offset
    gain = plain if isinstance(mixer, LinearAttention | Average) else offset
    rule = _shares if averages(layer) else _counts
    labels = by_offset(plain, gain)
    return [Seen(LabelledEdges.of(edges, labels, sink=False), rule) for edges in heads]


def _shares(tables: Tables, colours: Array) -> list[bytes]:
    return tables.shares()


def _counts(tables: Tables, colours: Array) -> list[bytes]:
    return tables.counts(np.ones(tables.edges.size, dtype=bool))


@dataclass(frozen=True, eq=False)
class _Named:
    """A head (`anyseq.graph.rounds`) that gives every position its number, if it has any key.
    some: (size,) bool."""

    some: Array
    row: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    column: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def seen(self, colours: Array, looking: Array) -> list[bytes]:
        return [b"%d" % i if self.some[i] else b"" for i in looking.tolist()]
