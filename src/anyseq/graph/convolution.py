"""Refinement of long designs whose patterns depend on i - j only: sums instead of tables.

If no two keys of a vertex share a label, T_i has entries 0 and 1: a vertex that attends to two
colours or more (or has a gain for each offset) can compute T_i itself, so any function of T_i that
differs proves that two positions are told apart. Σ_o G_o h(c_(i-o)) over the visible offsets o,
with random whole numbers G and h, is a convolution; its terms are so small that the rounded result
is exact.
"""

from __future__ import annotations

import numpy as np

from anyseq.base import check_time
from anyseq.design import Design, Layer
from anyseq.graph.edges import Array, vertices
from anyseq.graph.fourier import convolved
from anyseq.graph.labels import start
from anyseq.positions import URPE, ALiBi, RelativeBias, Rotary, base_of

_MOST = 1 << 18
_RANGE = 1 << 9  # sums of 2^18 products below 2^18 are off by less than 2^-8 before rounding
_SUMS = 4
_PAIRS = 1 << 20  # of a vertex and one it sees; among more a convolution is quicker
_ROUNDS = 8  # of sums; what then spreads, spreads from positions that are known


def told_by_sums(design: Design) -> int | None:
    """A number of layers after which all tokens are sure to be told apart, the least one if it is
    small; None if sums do not show it, or say nothing about such a design."""
    size = vertices(design)
    if size > _MOST:
        return None
    cycle = [_telling(layer, size) for layer in design.layer_cycle]
    if not any(cycle):
        return None
    rng = np.random.default_rng(0)
    colours = start(design)
    for layer in range(_ROUNDS):
        if layer == design.depth:
            return None
        seen = [_seen(mask, colours, gain, rng) for mask, gain in cycle[layer % len(cycle)]]
        rows = np.concatenate([colours[:, None], *seen], axis=1)
        colours = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
        if len(np.unique(colours[design.bos :])) == design.tokens:
            return layer + 1
    return _spread(cycle, colours, design)


def _telling(layer: Layer, size: int) -> list[tuple[Array, bool]]:
    """The offsets that each head of a layer attends to, and whether it has a gain for each, where
    sums say what it tells apart. What other layers tell apart is left out, so the result is a lower
    bound."""
    base, gains = base_of(layer.position), isinstance(layer.position, URPE)
    if not layer.attends or isinstance(base, ALiBi):
        return []
    if not (gains or isinstance(base, RelativeBias | Rotary)):
        return []
    offsets = [None if head.differs else head.offsets(size) for head in layer.sees.heads()]
    return [(mask.numpy().astype(np.int64), gains) for mask in offsets if mask is not None]


def _spread(cycle: list[list[tuple[Array, bool]]], colours: Array, design: Design) -> int | None:
    """Layers until every position is identified. A colour that only one position has identifies all
    positions that attend to it, too: by the offset, which a gain shows; a bias does if another
    colour is visible, such as one's own."""
    size = len(colours)
    known = np.bincount(colours, minlength=size)[colours] == 1
    fresh = [np.flatnonzero(known)] * len(cycle)  # since each pattern's last turn
    layer = _ROUNDS
    while any(map(len, fresh)) and layer != design.depth:
        check_time()
        turn = layer % len(cycle)
        found = np.zeros(size, dtype=bool)
        for mask, gain in cycle[turn]:
            if gain or mask[size - 1]:
                found |= _seers(mask, fresh[turn], size)
        new = np.flatnonzero(found & ~known)
        known[new] = True
        fresh = [np.append(old, new) for old in fresh]
        fresh[turn] = new
        layer += 1
        if known[design.bos :].all():
            return layer
    return None


def _seers(mask: Array, some: Array, size: int) -> Array:
    """(size,) bool: which vertices attend to one of some vertices."""
    offsets = np.flatnonzero(mask) - (size - 1)
    if len(some) * len(offsets) > _PAIRS:
        return _convolved(mask, np.bincount(some, minlength=size), size) > 0
    found = np.zeros(size, dtype=bool)
    seers = np.add.outer(some, offsets).ravel()
    found[seers[(seers >= 0) & (seers < size)]] = True
    return found


def _seen(mask: Array, colours: Array, gains: bool, rng: np.random.Generator) -> Array:
    """(size, sums) whole numbers that differ only where the visible keys differ."""
    size = len(colours)
    plain = rng.integers(1, _RANGE, size)[colours]
    count, total, squares = (_convolved(mask, plain**power, size) for power in range(3))
    colourful = gains | (count * squares != total**2)
    sums = [
        _convolved(
            mask * rng.integers(1, _RANGE, len(mask)), rng.integers(1, _RANGE, size)[colours], size
        )
        for _ in range(_SUMS)
    ]
    return np.where(colourful[:, None], np.stack(sums, axis=1), -1)


def _convolved(by_offset: Array, values: Array, size: int) -> Array:
    """(size,) Σ_j by_offset[i - j + size - 1] values[j], whole numbers."""
    whole: Array = np.rint(convolved(by_offset, values)[size - 1 : 2 * size - 1]).astype(np.int64)
    return whole
