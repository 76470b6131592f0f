"""Position refinement: which positions a network can tell apart on identical tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from anyseq.design import Design, Layer, Mixer, Recurrence
from anyseq.errors import InvalidArgument
from anyseq.graph.borders import keys_seen, told_by_borders
from anyseq.graph.convolution import told_by_sums
from anyseq.graph.edges import Array, TooManyEdges, all_see_themselves, edges_of, vertices
from anyseq.graph.labels import geometric, labels, start
from anyseq.graph.mixing import averages, shown
from anyseq.graph.rounds import Head, rounds
from anyseq.graph.seen import Rule, Seen
from anyseq.graph.slopes import nearest, nearest_many, supported
from anyseq.graph.tables import LabelledEdges, Tables
from anyseq.graph.top import by_labels, by_slopes
from anyseq.positions import Place
from anyseq.probability import Entmax15, Hardmax, ProbMap, Softmax, Sparsemax, TopK

_MOST_EDGES = 1 << 25
_LONG = 2048


@dataclass(frozen=True, eq=False)
class Refinement:
    """Which positions differ on identical tokens.

    classes: (tokens,) int64: positions with different numbers are told apart by some network.
    limit: (tokens,) int64: positions with equal numbers are told apart by none. Equal to `classes`
        unless the graph is too large to be refined.
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
    attention can compute from its table T_i.

    Heads whose queries and keys read nothing but colours depend on T_i (`anyseq.graph.tables`)
    through the probability map of their layer. Exact rules:

    - softmax, hardmax: `ratios`.
    - sparsemax, entmax15: T_i itself where two colours are visible or T_i has rank above one (but
      not which label it is, where there is but one), else the shares of its columns.
    - with ALiBi: softmax gives `rational`, hardmax `nearest`, sparsemax and entmax15 `supported`.
    - a sink is a visible key with a label and a colour of its own.
    - top-k: `by_labels`, with ALiBi `by_slopes` (`anyseq.graph.top`), and `nearest_many` with a
      gain besides.
    - layers that are not attention: `anyseq.graph.mixing`.

    If there is nothing to tell apart, one column and no empty row everywhere, no graph is needed,
    nor if a quick test shows that one layer tells all apart (`anyseq.graph.borders`), nor, for long
    designs, if sums (`anyseq.graph.convolution`) or numbers of keys show that some layers do.
    Beyond 2^25 connections nothing else is sure, and the limit is that all positions differ.
    """
    size, begin = vertices(design), start(design)
    for one in design.layer_cycle:
        if one.attends:
            _rule(one.probability, one, size)  # a map that is not known is refused, at once
    if len(np.unique(begin)) == len(begin) or _all_alike(design, begin):
        classes = begin[design.bos :]
        return Refinement(classes, classes, 0)
    layers = 1 if told_by_borders(design) else None
    if layers is None and design.tokens > _LONG:
        layers = told_by_sums(design) or _told_by_counting(design)
    if layers is not None:
        apart = np.arange(design.tokens)
        return Refinement(apart, apart, layers)
    try:
        cycle = [_heads(layer, size) for layer in design.layer_cycle]
    except TooManyEdges:
        return Refinement(begin[design.bos :], np.arange(design.tokens), 0)
    colours, layer = rounds(cycle, begin, design.depth)
    classes = colours[design.bos :]
    return Refinement(classes, classes, layer)


def classes_by_layer(design: Design) -> list[Array]:
    """The classes of the positions after 0, 1, ... layers, up to the last one that changes them."""
    first = np.unique(start(design)[design.bos :], return_inverse=True)[1].ravel()
    found = refine(design)
    between = [refine(replace(design, depth=layer)).classes for layer in range(1, found.rounds)]
    return [first, *between, *[found.classes] * (found.rounds > 0)]


def _told_by_counting(design: Design) -> int | None:
    """The first layer that counts the tokens, if there is one: a recurrence, or heads in which all
    tokens attend to different numbers of keys, with a sink that takes one share of equal ones."""
    layers = design.layer_cycle[: design.depth]
    kinds = dict.fromkeys(layers)
    counting = {layer for layer in kinds if _counts_keys(layer, design)}
    return next((one for one, layer in enumerate(layers, 1) if layer in counting), None)


def _counts_keys(layer: Layer, design: Design) -> bool:
    if not layer.attends:
        return isinstance(layer.mixer, Recurrence)
    if not layer.sinks or geometric(layer.position):
        return False
    numbers = (keys_seen(head, design.size)[design.bos :] for head in layer.sees.heads())
    return any(len(np.unique(many)) == design.tokens for many in numbers)


def _all_alike(design: Design, begin: Array) -> bool:
    """Whether a quick test shows that there is nothing to tell apart: one colour, weights that sum
    to 1 in every layer, and no row without a key."""
    size = vertices(design)
    return len(np.unique(begin)) == 1 and all(
        averages(layer)
        and len(np.unique(labels(layer.position, size).gain)) == 1
        and all_see_themselves(layer.sees, size)
        for layer in dict.fromkeys(design.layer_cycle)
    )


def _heads(layer: Layer, size: int) -> list[Head]:
    """What the layer shows, head by head."""
    if isinstance(layer.mixer, Mixer):
        return shown(layer, layer.mixer, size, _MOST_EDGES)
    seen = labels(layer.position, size)
    rule = _rule(layer.probability, layer, size)
    return [
        Seen(LabelledEdges.of(edges_of(head, size, _MOST_EDGES), seen, layer.sinks), rule)
        for head in dict.fromkeys(layer.sees.heads())
    ]


def _rule(prob_map: ProbMap, layer: Layer, size: int) -> Rule:
    """What can be told apart through the probability map."""
    sloped = geometric(layer.position)
    match prob_map:
        case Softmax() | Hardmax() | Sparsemax() | Entmax15():
            return _by_slopes(prob_map, layer.sinks) if sloped else _by_labels(prob_map)
        case TopK(k=1):  # the largest score and its ties, which weigh the same
            return _rule(Hardmax(), layer, size)
        case TopK() if prob_map.k >= size + layer.sinks:
            return _rule(Softmax(), layer, size)
        case TopK() if sloped:
            return _top_by_slopes(prob_map.k, layer)
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


def _top_by_slopes(k: int, layer: Layer) -> Rule:
    gains = Place.GAIN in layer.position.acts_in

    def rule(tables: Tables, colours: Array) -> list[bytes]:
        distance = _distances(tables, layer.sinks)
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
