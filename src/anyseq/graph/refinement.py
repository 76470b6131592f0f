"""Position refinement: which positions a network can tell apart on identical tokens."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from anyseq.design import Design
from anyseq.errors import InvalidArgument
from anyseq.graph.borders import told_by_borders
from anyseq.graph.convolution import told_by_sums
from anyseq.graph.edges import Array, TooManyEdges, all_see_themselves, edges_of, vertices
from anyseq.graph.labels import geometric, labels, start
from anyseq.graph.rounds import rounds
from anyseq.graph.seen import Rule, Seen
from anyseq.graph.slopes import nearest, nearest_many, supported
from anyseq.graph.tables import LabelledEdges, Tables
from anyseq.graph.top import by_labels, by_slopes
from anyseq.positions import Place
from anyseq.probability import Entmax15, Hardmax, ProbMap, Softmax, Sparsemax, TopK

_MOST_EDGES = 1 << 25
_LONG = 4096


@dataclass(frozen=True, eq=False)
class Refinement:
    """Which positions differ on identical tokens.

    classes: (tokens,) int64: positions with different numbers are told apart by some network.
    limit: (tokens,) int64: positions with equal numbers are told apart by none. Equal to `classes`
        but where the graph is too large to be looked at.
    rounds: the number of the last layer that changed `classes`; 0 is the start.
    """

    classes: Array
    limit: Array
    rounds: int

    @property
    def discrete(self) -> bool:
        """Whether some network tells all positions apart."""
        return len(np.unique(self.classes)) == len(self.classes)

    @property
    def stuck(self) -> tuple[int, int] | None:
        """Two positions that no network tells apart, as far apart as possible."""
        _, first = np.unique(self.limit, return_index=True)
        backward = np.unique(self.limit[::-1], return_index=True)[1]
        distance = len(self.limit) - 1 - backward - first
        best = int(distance.argmax())
        return (int(first[best]), int(first[best] + distance[best])) if distance[best] else None


def refine(design: Design) -> Refinement:
    """Layer by layer, up to the design's depth: the new colour of i is its old one with what
    attention can see of its table T_i.

    Heads whose queries and keys read nothing but colours see T_i (`anyseq.graph.tables`) through
    the probability map. Exact rules:

    - softmax, hardmax: `ratios`.
    - sparsemax, entmax15: T_i itself where two colours are visible or T_i has rank above one (but
      not which label it is, where there is but one), else the shares of its columns.
    - with ALiBi: softmax sees `rational`, hardmax `nearest`, sparsemax and entmax15 `supported`.
    - a sink is a visible key with a label and a colour of its own.
    - top-k: `by_labels`, with ALiBi `by_slopes` (`anyseq.graph.top`), and `nearest_many` with a
      gain besides.

    If nobody has anything to tell apart, one column and no empty row everywhere, no graph is
    needed, nor if a glance shows that one layer tells all apart (`anyseq.graph.borders`), nor, for
    long designs, if sums show that some layers do (`anyseq.graph.convolution`). Beyond 2^25
    connections nothing else is sure, and the limit is that all positions differ.
    """
    begin = start(design.position, design.tokens, design.bos)
    rule = _rule(design.probability, design)
    bias, gain = labels(design.position, vertices(design))
    one_column = len(np.unique(begin)) == 1 and len(np.unique(gain)) == 1 and not design.sinks
    if len(np.unique(begin)) == len(begin) or (one_column and all_see_themselves(design)):
        classes = begin[design.bos :]
        return Refinement(classes, classes, 0)
    layers = 1 if told_by_borders(design) else None
    if layers is None and design.tokens > _LONG:
        layers = told_by_sums(design)
    if layers is not None:
        apart = np.arange(design.tokens)
        return Refinement(apart, apart, layers)
    try:
        known = [
            [edges_of(head, vertices(design), _MOST_EDGES) for head in dict.fromkeys(part.heads())]
            for part in design.cycle
        ]
    except TooManyEdges:
        return Refinement(begin[design.bos :], np.arange(design.tokens), 0)
    cycle = [
        [Seen(LabelledEdges.of(edges, bias, gain, design.sinks), rule) for edges in heads]
        for heads in known
    ]
    colours, layer = rounds(cycle, begin, design.depth)
    classes = colours[design.bos :]
    return Refinement(classes, classes, layer)


def _rule(prob_map: ProbMap, design: Design) -> Rule:
    """What is seen through the probability map."""
    sloped = geometric(design.position)
    match prob_map:
        case Softmax() | Hardmax() | Sparsemax() | Entmax15():
            return _by_slopes(prob_map, design.sinks) if sloped else _by_labels(prob_map)
        case TopK(k=1):  # the largest score and its ties, which weigh the same
            return _rule(Hardmax(), design)
        case TopK() if prob_map.k >= vertices(design) + design.sinks:
            return _rule(Softmax(), design)
        case TopK() if sloped:
            return _top_by_slopes(prob_map.k, design)
        case TopK():
            return partial(by_labels, k=prob_map.k)
    raise InvalidArgument(
        f"prob_map={prob_map!r}: it is not known what this map can tell apart; expected softmax, "
        "hardmax, sparsemax, entmax15 or TopK"
    )


def _by_labels(prob_map: ProbMap) -> Rule:
    """Scores are free for every label and colour."""
    if isinstance(prob_map, Softmax | Hardmax):
        return lambda tables, colours: tables.ratios()
    return lambda tables, colours: tables.counts(tables.colourful | ~tables.plain)


def _by_slopes(prob_map: ProbMap, sinks: bool) -> Rule:
    """Scores are free for every colour, and fall with the distance."""

    def rule(tables: Tables, colours: Array) -> list[bytes]:
        distance = _distances(tables, sinks)
        match prob_map:
            case Softmax():
                return tables.rational(distance)
            case Hardmax():
                return nearest(tables, distance)
        return supported(tables, distance, power=1 if isinstance(prob_map, Sparsemax) else 2)

    return rule


def _top_by_slopes(k: int, design: Design) -> Rule:
    gains = Place.GAIN in design.position.acts_in

    def rule(tables: Tables, colours: Array) -> list[bytes]:
        distance = _distances(tables, design.sinks)
        if gains:
            return nearest_many(tables, distance, k)
        return by_slopes(tables, colours, distance, k)

    return rule


def _distances(tables: Tables, sinks: bool) -> Array:
    """(labels,) labels of ALiBi are 0, 1, 2, ..., the distance itself; a sink has distance 0."""
    distance = np.arange(int(tables.edges.r.max()) + 1)
    if sinks:
        distance[-1] = 0
    return distance
