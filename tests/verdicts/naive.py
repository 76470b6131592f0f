"""What `anyseq.graph` computes, by brute force and from the definitions, for few tokens."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, permutations
from math import gcd
from typing import Any

import torch

import anyseq as aq

Mask = list[list[bool]]


def masks(design: aq.Design) -> list[list[Mask]]:
    """For every pattern of the cycle, the mask of each of its heads; BOS is vertex 0."""
    size = design.tokens + design.bos
    return [[part.mask(size).tolist() for part in p.heads()] for p in design.cycle]


def label(layer: aq.Layer, i: int, j: int) -> tuple[int, int]:
    """(bias label, gain label) of a pair."""
    offset = torch.tensor(i - j)
    position, gain = layer.position, 0
    if isinstance(position, aq.URPE):
        position, gain = position.base, i - j
    if isinstance(position, aq.Shaw):
        bias = int(position.label(offset))
        return bias, gain * 1000 + bias
    if isinstance(position, aq.Rotary):
        return i - j, gain
    if isinstance(position, aq.GridBias):
        return _grid_label(position.shape, i, j), gain
    if hasattr(position, "label"):
        return int(position.label(offset)), gain
    return 0, gain


def _grid_label(shape: tuple[int, ...], i: int, j: int) -> int:
    """The offsets along the axes, all at least 1 - 1000, as one number."""
    bias = 0
    for length in reversed(shape):
        bias = 2000 * bias + i % length - j % length + 1000
        i, j = i // length, j // length
    return bias


def start(design: aq.Design) -> list[int]:
    size = design.tokens + design.bos
    if isinstance(design.input_position, aq.Absolute | aq.Sinusoidal):
        return list(range(size))
    return [1 if design.bos and i == 0 else 0 for i in range(size)]


def reach(design: aq.Design, phase: int = 0) -> list[list[list[bool]]]:
    """Whether j has reached k after 0, 1, 2, ... layers, until nothing can change any more."""
    size, cycle = design.tokens + design.bos, masks(design)
    held = [[i == j for j in range(size)] for i in range(size)]
    history = [held]
    for layer in range(phase, phase + len(cycle) * (size + 1)):
        heads = cycle[layer % len(cycle)]
        held = [
            [
                held[k][j] or any(mask[k][m] and held[m][j] for mask in heads for m in range(size))
                for j in range(size)
            ]
            for k in range(size)
        ]
        history.append(held)
    return history


def refine(design: aq.Design, depth: int | None = None) -> tuple[list[int], int]:
    """(colours of the real tokens, rounds) for softmax, hardmax, sparsemax and entmax15."""
    size, cycle = design.tokens + design.bos, masks(design)
    colour, rounds = start(design), 0
    for turn in range(len(cycle) * (size + 1) if depth is None else depth):
        layer = design.layer_cycle[turn % len(cycle)]
        keys = [
            (colour[i], *(_key(layer, i, mask[i], colour) for mask in cycle[turn % len(cycle)]))
            for i in range(size)
        ]
        names = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        new = [names[key] for key in keys]
        if len(set(new)) > len(set(colour)):
            rounds = turn + 1
        colour = new
    return colour[design.bos :], rounds


def _key(layer: aq.Layer, i: int, row: list[bool], colour: list[int]) -> Any:
    table: dict[tuple[Any, Any], int] = {}
    for j, seen in enumerate(row):
        if seen:
            bias, gain = label(layer, i, j)
            table[bias, (gain, colour[j])] = table.get((bias, (gain, colour[j])), 0) + 1
    if not table and not layer.sinks:
        return "nothing"
    if layer.sinks:
        table["sink", ("sink", "sink")] = 1
    rows = sorted({r for r, _ in table}, key=str)
    columns = sorted({c for _, c in table}, key=str)
    matrix = [[table.get((r, c), 0) for c in columns] for r in rows]
    sums = [sum(row[c] for row in matrix) for c in range(len(columns))]
    proportions = ("proportions", columns, _primitive(sums))
    alone = all(
        a[c] * b[d] == a[d] * b[c]
        for a in matrix
        for b in matrix
        for c in range(len(columns))
        for d in range(len(columns))
    )
    base = layer.position.base if isinstance(layer.position, aq.URPE) else layer.position
    name = layer.probability.name
    if name in ("sparsemax", "entmax15"):
        colours = {c for _, c in columns}
        if len(colours) < 2 and alone:
            return repr(proportions)
        # a single label is a shift of all scores, which these maps ignore
        return repr(("counts", rows if len(rows) > 1 else [], columns, matrix))
    if isinstance(base, aq.ALiBi):
        return repr((columns, _ratios(rows, matrix)))
    if alone:
        return repr(proportions)
    flat = [entry for row in matrix for entry in row]
    return repr(("table", rows, columns, _primitive(flat)))


def _ratios(rows: list[Any], matrix: list[list[int]]) -> list[str]:
    """The columns as polynomials in q, divided by the first one: compared at many rational q."""
    out = []
    for q in (Fraction(k, 97) for k in range(1, 60)):
        weights = [q**r if isinstance(r, int) else Fraction(10**9 + 7) for r in rows]
        values = [
            sum(w * row[c] for w, row in zip(weights, matrix, strict=True))
            for c in range(len(matrix[0]))
        ]
        out.append(str([value / sum(values) for value in values]))
    return out


def _primitive(numbers: list[int]) -> list[int]:
    factor = gcd(*numbers)
    return [number // factor for number in numbers]


def isomorphisms(design: aq.Design, target: str) -> bool:
    """Whether every rooted isomorphism (R_i, i) -> (R_i', i') has i = i' and fixes what i wants."""
    size, bos, cycle = design.tokens + design.bos, int(design.bos), masks(design)
    reached, first = reach(design)[-1], start(design)
    sets = [[j for j in range(size) if reached[i][j]] for i in range(size)]
    for i in range(bos, size):
        for other in range(bos, size):
            if len(sets[i]) != len(sets[other]):
                continue
            for image in permutations(sets[other]):
                phi = dict(zip(sets[i], image, strict=True))
                if phi[i] != other or not all(
                    first[u] == first[v]
                    and all(
                        _alike(layer, heads, phi, u, v)
                        for layer, heads in zip(design.layer_cycle, cycle, strict=True)
                    )
                    for u, v in phi.items()
                ):
                    continue
                wanted = [u for u in sets[i] if u >= bos and (target == "all" or u <= i)]
                if i != other or any(phi[u] != u for u in wanted):
                    return False
    return True


def _alike(layer: aq.Layer, heads: list[Mask], phi: dict[int, int], u: int, v: int) -> bool:
    base = layer.position.base if isinstance(layer.position, aq.URPE) else layer.position
    for mask in heads:
        seen = [w for w in range(len(mask)) if mask[u][w]]
        if {phi[w] for w in seen} != {w for w in range(len(mask)) if mask[v][w]}:
            return False
        before = [label(layer, u, w) for w in seen]
        after = [label(layer, v, phi[w]) for w in seen]
        if [gain for _, gain in before] != [gain for _, gain in after]:
            return False
        changes = [(a[0], b[0]) for a, b in zip(before, after, strict=True)]
        same = all(a == b for a, b in changes)
        single = len({a for a, _ in changes}) <= 1 and len({b for _, b in changes}) <= 1
        shifted = isinstance(base, aq.ALiBi) and len({a - b for a, b in changes}) <= 1
        free = not layer.sinks and not isinstance(base, aq.Shaw)
        if not (same or (free and (single or shifted))):
            return False
    return True


def has_path(design: aq.Design) -> bool:
    """Whether some order of the real tokens has each one see the one before it."""
    size, bos = design.tokens + design.bos, int(design.bos)
    seen = [
        [any(mask[i][j] for heads in masks(design) for mask in heads) for j in range(size)]
        for i in range(size)
    ]
    return any(
        all(seen[b][a] for a, b in pairwise(order)) for order in permutations(range(bos, size))
    )
