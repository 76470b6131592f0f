"""Places that are alike when all tokens differ: what obstructs a design in L^p.

Let R_i be the vertices that reach i. A *rooted isomorphism* (R_i, i) -> (R_i', i') maps what each u
of R_i attends to, in every pattern and head, onto what its image attends to, and keeps starting
colours, gain labels and bias labels; the latter up to what the probability map cannot tell apart
(`relaxed`). A design is *rigid* if there is none between two different tokens. If all tokens reach
each other that says that the identity is the only automorphism.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from anyseq.base import check_time
from anyseq.design import (
    Average,
    Bilinear,
    Convolution,
    Design,
    Layer,
    LinearAttention,
    Mixer,
    Recurrence,
)
from anyseq.graph.borders import keys_seen
from anyseq.graph.edges import Array, Edges, TooManyEdges, edges_of, vertices
from anyseq.graph.isomorphism import GivenUp, find, find_within
from anyseq.graph.labels import geometric, labels, start
from anyseq.graph.reach import reach
from anyseq.graph.relations import Relation, stable
from anyseq.graph.rounds import rounds
from anyseq.positions import URPE, GridBias, RelativeBias, Rotary

_MOST_EDGES = 1 << 25


@dataclass(frozen=True, eq=False)
class Symmetry:
    """rigid: whether no two places are alike; None if the search was given up, or some layer is
        not attention.

    image: (tokens,) where a token goes, -1 where the isomorphism says nothing. root: (i, i') if it
    is only a rooted isomorphism; None if it is an automorphism of the whole design.
    kind: "permutations" (all of them), "reversal", "rotation", "other", or "" if rigid.
    """

    rigid: bool | None
    image: tuple[int, ...] | None = None
    root: tuple[int, int] | None = None
    kind: str = ""


def symmetry(design: Design, target: str = "all") -> Symmetry:
    """Whether two places are alike; all wanted pairs of tokens are assumed to be reached."""
    if any(_different_numbers(layer, design) for layer in design.layer_cycle[: design.depth]):
        return Symmetry(True)
    if _keeps_offsets(design, target):
        # the isomorphism is then a shift of R_i, which begins with the first token, onto R_i',
        # which does so too: a shift by 0
        return Symmetry(True)
    try:
        relations = list(dict.fromkeys(chain(*_relations(design))))
    except TooManyEdges:
        return Symmetry(None)
    begin = start(design)
    colours = stable(relations, begin)
    bos, real = int(design.bos), colours[design.bos :]
    if len(np.unique(real)) == len(real):
        return Symmetry(True)
    if target == "all":
        for kind, image in _usual(relations, design):
            return Symmetry(False, tuple(image.tolist()), kind=kind)
    try:
        for i, other in chain(_siblings(relations, colours, bos), _pairs(real)):
            found = find(relations, begin, i + bos, other + bos)
            if found is None:
                continue
            places = np.full(design.tokens, -1)
            for u, v in found.items():
                if u >= bos:
                    places[u - bos] = v - bos
            whole = target == "all" and bool((places >= 0).all())
            root = None if whole else (i, other)
            return Symmetry(False, tuple(places.tolist()), root, "other")
    except GivenUp:
        return Symmetry(None)
    return Symmetry(True)


def _keeps_offsets(design: Design, target: str) -> bool:
    """Whether every isomorphism is sure to keep i - j for all j that reach i: because layers that
    keep it for all j that i attends to suffice to reach them."""
    layers = design.layer_cycle
    keeping = [layer for layer in layers if _keeps(layer, design.size)]
    if len(keeping) in (0, len(layers)):
        return bool(keeping)
    return reach(replace(design.with_layers(keeping), depth=None), target).holds


def _keeps(layer: Layer, size: int) -> bool:
    """Whether i - j is a gain label, or determined by a bias label of a row with another one or a
    sink."""
    if isinstance(layer.mixer, Mixer):
        return isinstance(layer.mixer, Convolution | Recurrence | Bilinear)
    if isinstance(layer.position, URPE):
        return True
    if not isinstance(layer.position, RelativeBias | Rotary | GridBias):
        return False
    return layer.sinks or all(1 not in keys_seen(head, size) for head in layer.sees.heads())


def apart_after(design: Design) -> int | None:
    """Layers, counted from the second one, after which no two places are alike when all tokens
    differ: they then differ by what they attend to, labels and colours, whatever the tokens are.
    None if colours do not show it, or there are too many connections to check.
    """
    turned = design.turned(1 % len(design.layer_cycle))
    begin, bos = start(design), int(design.bos)
    if len(np.unique(begin[bos:])) == design.tokens:
        return 0
    if _different_numbers(turned.layer_cycle[0], design):
        return 1
    try:
        cycle = _relations(turned)
    except TooManyEdges:
        return None
    colours, layers = rounds(cycle, begin)
    return layers if len(np.unique(colours[bos:])) == design.tokens else None


def _different_numbers(layer: Layer, design: Design) -> bool:
    """Whether all tokens attend to different numbers of keys, in some head of a layer."""
    numbers = (keys_seen(head, design.size)[design.bos :] for head in layer.sees.heads())
    return any(len(np.unique(many)) == design.tokens for many in numbers)


def fixing(design: Design, place: int) -> dict[int, int] | None:
    """An isomorphism of what reaches a token onto itself that keeps this token and moves others,
    as {token: token}; None if none is found."""
    try:
        relations = list(dict.fromkeys(chain(*_relations(design))))
    except TooManyEdges:
        return None
    begin, bos = start(design) * 2, int(design.bos)
    begin[place + bos] += 1
    colours = stable(relations, begin)[bos:]
    try:
        for u, v in _pairs(colours):
            found = find_within(relations, begin, place + bos, (u + bos, v + bos))
            if found is not None:
                return {a - bos: b - bos for a, b in found.items() if a >= bos}
    except GivenUp:
        pass
    return None


def _relations(design: Design) -> list[list[Relation]]:
    """Those of each layer, one for each of its heads; equal ones are one object."""
    size = vertices(design)
    known: dict[object, Relation] = {}
    cycle = []
    for layer in design.layer_cycle:
        kinds = [
            (head, layer.mixer, layer.position, layer.sinks)
            for head in dict.fromkeys(layer.sees.heads())
        ]
        for kind in kinds:
            if kind not in known:
                edges = edges_of(kind[0], size, _MOST_EDGES)
                known[kind] = _relaxed(edges, layer) if layer.attends else _mixed(edges, layer)
        cycle.append([known[kind] for kind in kinds])
    return cycle


def _mixed(edges: Edges, layer: Layer) -> Relation:
    """Edges of a layer that is not attention: sums by offset show it, averages and linear attention
    do not, and a bilinear map has a number for each pair."""
    row, column = edges.rows().astype(np.int64), edges.columns.astype(np.int64)
    label = row - column + edges.size
    if isinstance(layer.mixer, Bilinear):
        label = row * edges.size + column
    elif isinstance(layer.mixer, Average | LinearAttention):
        label = np.zeros_like(row)
    return Relation(edges.size, row, column, label)


def _relaxed(edges: Edges, layer: Layer) -> Relation:
    """Edges labelled by what the output can depend on of r and g.

    A common factor of all weights of a row is lost in normalisation: ALiBi's distances count from
    the nearest key on, and a free label that all keys of a row share says nothing. A sink is beside
    them and brings the factor back.
    """
    seen = labels(layer.position, edges.size)
    bias, gain = seen.bias, seen.gain
    row, column = edges.rows().astype(np.int64), edges.columns.astype(np.int64)
    at = seen.at(row, column)
    r, g = bias[at], gain[at]
    if len(r) and not layer.sinks:
        starts = edges.starts[:-1][edges.degrees > 0]
        low = np.repeat(np.minimum.reduceat(r, starts), edges.degrees[edges.degrees > 0])
        high = np.repeat(np.maximum.reduceat(r, starts), edges.degrees[edges.degrees > 0])
        r = r - low if geometric(layer.position) else np.where(low == high, bias.min() - 1, r)
    span = gain.max() - gain.min() + 1
    return Relation(edges.size, row, column, (r - bias.min() + 1) * span + g - gain.min())


def _usual(relations: Sequence[Relation], design: Design) -> Iterator[tuple[str, Array]]:
    """The automorphisms with names, as permutations of the tokens."""
    n, bos = design.tokens, int(design.bos)
    index = np.arange(n)
    swap = index.copy()
    swap[:2] = [1, 0]
    turn, back = (index + 1) % n, n - 1 - index

    def keeps(image: Array) -> bool:
        whole = np.concatenate([np.arange(bos), image + bos])
        return all(relation.keeps(whole) for relation in relations)

    if keeps(turn):
        # a rotation and one exchange of neighbours generate all permutations
        yield ("permutations" if keeps(swap) else "rotation"), turn
    elif keeps(back):
        yield "reversal", back


def _siblings(relations: Sequence[Relation], colours: Array, bos: int) -> Iterator[tuple[int, int]]:
    """For each colour two tokens with a vertex that attends to both, if there are such: symmetries
    that move few vertices are found soonest."""
    found: dict[int, tuple[int, int]] = {}
    for relation in relations:
        check_time()
        seen = np.stack([relation.row, colours[relation.column], relation.column])
        seen = seen[:, (relation.column >= bos)]
        seen = seen[:, np.lexsort(seen[::-1])]
        alike = np.flatnonzero((seen[:2, 1:] == seen[:2, :-1]).all(0))
        colour, first = np.unique(seen[1, alike], return_index=True)
        for one, at in zip(colour.tolist(), alike[first].tolist(), strict=True):
            found.setdefault(one, (int(seen[2, at]) - bos, int(seen[2, at + 1]) - bos))
    yield from found.values()


def _pairs(colours: Array) -> Iterator[tuple[int, int]]:
    """Two tokens of one colour, in every way."""
    for colour in np.unique(colours):
        members = np.flatnonzero(colours == colour).tolist()
        yield from ((i, other) for place, i in enumerate(members) for other in members[place + 1 :])
