"""Position refinement: which positions a network can tell apart on identical tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from anyseq.design import Design
from anyseq.errors import InvalidArgument
from anyseq.graph.edges import Array, TooManyEdges, all_see_themselves, edges_of, vertices
from anyseq.graph.labels import geometric, labels, start
from anyseq.graph.relations import numbered
from anyseq.graph.tables import LabelledEdges, Tables
from anyseq.probability import Entmax15, Hardmax, ProbMap, Softmax, Sparsemax, TopK

_MOST_EDGES = 1 << 25

Rule = Callable[[Tables, Array], list[bytes]]
"""Tables and old colours -> what each vertex sees; equal bytes = not told apart."""


@dataclass(frozen=True, eq=False)
class Refinement:
    """Which positions differ on identical tokens.

    classes: (tokens,) int64: positions with different numbers are told apart by some network.
    limit: (tokens,) int64: positions with equal numbers are told apart by none. Equal to `classes`
        wherever the rules are exact; finer for TopK and some maps with ALiBi.
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

    - softmax, hardmax: `ratios`; with ALiBi, softmax sees `rational`.
    - sparsemax, entmax15: T_i itself where two colours are visible or T_i has rank above one (but
      not which label it is, where there is but one), else the shares of its columns.
    - a sink is a visible key with a label and a colour of its own.

    Two bounds, where no exact rule is known. `limit` comes from something of which the output is
    a function, `classes` from what heads of a simple kind are sure to tell apart:

    - TopK(k): outputs are functions of T_i, and if T_i has a single column, of nothing but that
      column, since weights sum to 1. Sure: with equal scores all tie and are kept, so everybody
      sees the shares of the columns; and two rows of at most k keys see what softmax sees. A row of
      at most k keys and a longer one are told apart by their shares only: a class that has both is
      not cut, or one of its parts would be told apart from the longer row without proof.
    - sparsemax, entmax15 and TopK with ALiBi: nothing is sure, since slopes are never 0 and keys
      far away may get no weight; the limit is T_i as for TopK.
    - hardmax with ALiBi: nothing is sure; the limit is what softmax sees, since hardmax is a limit
      of softmax.

    If nobody has anything to tell apart, one column and no empty row everywhere, no graph is
    needed. Beyond 2^25 connections nothing is sure, and the limit is that all positions differ.
    """
    begin = start(design.position, design.tokens, design.bos)
    sure, limit = _rules(design.probability, design)
    bias, gain = labels(design.position, vertices(design))
    one_column = len(np.unique(begin)) == 1 and len(np.unique(gain)) == 1 and not design.sinks
    if len(np.unique(begin)) == len(begin) or (one_column and all_see_themselves(design)):
        classes = begin[design.bos :]
        return Refinement(classes, classes, 0)
    try:
        known = [
            [edges_of(head, vertices(design), _MOST_EDGES) for head in dict.fromkeys(part.heads())]
            for part in design.cycle
        ]
    except TooManyEdges:
        return Refinement(begin[design.bos :], np.arange(design.tokens), 0)
    cycle = [
        [LabelledEdges.of(edges, bias, gain, design.sinks) for edges in heads] for heads in known
    ]
    classes, rounds = _rounds(cycle, begin, sure, design.depth)
    finest = classes if limit is sure else _rounds(cycle, begin, limit, design.depth)[0]
    return Refinement(classes[design.bos :], finest[design.bos :], rounds)


def _rules(prob_map: ProbMap, design: Design) -> tuple[Rule, Rule]:
    """What is surely seen, and of what the output is a function."""
    alibi = geometric(design.position)

    def smooth(tables: Tables, colours: Array) -> list[bytes]:
        if not alibi:
            return tables.ratios()
        # labels of ALiBi are 0, 1, 2, ..., the distance itself; a sink has distance 0
        distance = np.arange(int(tables.edges.r.max()) + 1)
        if design.sinks:
            distance[-1] = 0
        return tables.rational(distance)

    match prob_map:
        case Softmax():
            return smooth, smooth
        case Hardmax():
            return (_nothing, smooth) if alibi else (smooth, smooth)
        case Sparsemax() | Entmax15():
            return (_nothing, _whole) if alibi else (_sparse, _sparse)
        case TopK() if prob_map.k >= vertices(design):
            return smooth, smooth
        case TopK():
            return (_nothing if alibi else _top(prob_map.k, smooth)), _whole
    raise InvalidArgument(
        f"prob_map={prob_map!r}: it is not known what this map can tell apart; expected softmax, "
        "hardmax, sparsemax, entmax15 or TopK"
    )


def _nothing(tables: Tables, colours: Array) -> list[bytes]:
    return [b""] * len(colours)


def _whole(tables: Tables, colours: Array) -> list[bytes]:
    return tables.counts(tables.columns > 1)


def _sparse(tables: Tables, colours: Array) -> list[bytes]:
    return tables.counts(tables.colourful | ~tables.plain)


def _top(k: int, smooth: Rule) -> Rule:
    def rule(tables: Tables, colours: Array) -> list[bytes]:
        groups = list(zip(colours.tolist(), tables.shares(), strict=True))
        long = {group for group, many in zip(groups, tables.visible, strict=True) if many > k}
        cut = [group not in long for group in groups]
        finer = smooth(tables, colours)
        return [
            share + b"|" + more if short else share
            for (_, share), more, short in zip(groups, finer, cut, strict=True)
        ]

    return rule


def _rounds(
    cycle: Sequence[Sequence[LabelledEdges]], colours: Array, rule: Rule, depth: int | None
) -> tuple[Array, int]:
    """The colours at the end, and the last layer that changed them."""
    colours, many = numbered(colours.tolist())
    layer = last = 0
    while layer < last + len(cycle) and many < len(colours) and layer != depth:
        seen = [rule(Tables.of(edges, colours), colours) for edges in cycle[layer % len(cycle)]]
        layer += 1
        finer, now = numbered(list(zip(colours.tolist(), *seen, strict=True)))
        if now > many:
            colours, many, last = finer, now, layer
    return colours, last
