"""Adaptive grids of method "gather": what the table says at an input, and the error it proves.

The table holds nodes with what multiplies their hats, and boxes with the constants of f in each. It
is checked without the code that made it:

1. The boxes fill the cube: sides are powers of two, corners multiples of them, no two boxes overlap
   and the volumes add up to 1.
2. All corners of all boxes are nodes, so that T = f there. Then in a simplex of a box T is a mean
   of values of f in that simplex, and the mean of a convex function is at most its interpolant with
   the side of the box for a step (`anyseq.construct.tables.leaves`): the bound of the box is that
   of a grid of its side, with its own constants.
3. The values at the corners of a box must not contradict its constants, nor those at nodes on its
   sides, where smaller boxes are next to it. There are no other nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import product

import numpy as np
import torch

from anyseq.construct.verifiers.claim import Claim
from anyseq.construct.verifiers.verify_front import Front, Weights
from anyseq.construct.verifiers.verify_kuhn import Grid, agrees
from anyseq.construct.verifiers.verify_terms import Disagreement, directions
from anyseq.nn import Stack

_BATCH = 1 << 14
_UNIT = 2.0**-53

Table = Mapping[str, torch.Tensor]


def hats_network(
    claim: Claim, network: Stack, net: Weights, table: Table, grid: Grid, front: Front
) -> tuple[str, dict[str, float]]:
    """What was found, and a bound for the rounding of one entry."""
    text, off = agrees(claim, net, hats_at(claim, table, grid.x), grid, front)
    return text, {"rounding": off + _rounding(claim, table), "rescale": 0.0}


def _rounding(claim: Claim, table: Table) -> float:
    """What float64 may add to one entry of the look-up, and what must have been done to the table
    for sums to be exact at the nodes.

    The look-up sums K(D+1) products of total size 2K, K the number of levels, weights off by 3u. A
    hat of reach r with value a puts a/r, or minus that, to some ReLUs, 2^(D+1) at most, which are
    m + r at most. Where all of these take 53 bits of some unit, values of hats are multiples of R
    of these, R the largest reach, moved by half of that.
    """
    axes, steps = claim.tokens * claim.features, claim.steps
    bound, side = max(claim.bound, 2.0**-960), table["boxes"][:, -1].numpy()
    largest = int(side.max())
    levels = (largest // int(side.min())).bit_length()
    place = (steps + 1) ** np.arange(axes - 1, -1, -1, dtype=np.int64)
    nodes = table["keys"].numpy()[:, None] // place % (steps + 1)
    reach = np.minimum(np.where(nodes, nodes & -nodes, largest).min(1), largest)
    size = np.abs(table["values"].numpy()).reshape(len(reach), -1)
    summed = 2 ** (axes + 1) * float((size * (steps / reach + 1)[:, None]).sum(0).max())
    looked = 2 * levels * (levels * (axes + 1) + 6) + 28
    units = looked * bound + largest * (summed + 16 * bound)
    return float(units * _UNIT)


def hats_at(claim: Claim, table: Table, x: np.ndarray) -> np.ndarray:
    """(inputs, tokens, out_features): Σ values hat at x (inputs, D), in float64."""
    keys, values = table["keys"].numpy(), table["values"].numpy()
    axes, largest = x.shape[1], int(table["boxes"][:, -1].max())
    place = (claim.steps + 1) ** np.arange(axes - 1, -1, -1, dtype=np.int64)
    out = np.zeros((len(x), *values.shape[1:]))
    for start in range(0, len(x), _BATCH):
        part = slice(start, start + _BATCH)
        side = largest
        while side:
            y = x[part] * (claim.steps // side)
            node = np.minimum(y.astype(np.int64), claim.steps // side - 1)
            rest = y - node
            order = np.argsort(-rest, axis=1)
            marks = np.take_along_axis(rest, order, axis=1)
            marks = np.concatenate([np.ones((len(y), 1)), marks, np.zeros((len(y), 1))], axis=1)
            for step in range(axes + 1):
                key = node @ place * side
                row = np.searchsorted(keys, key).clip(max=len(keys) - 1)
                there = (keys[row] == key) & ((side == largest) | (node % 2).any(1))
                share = (marks[:, step] - marks[:, step + 1]) * there
                out[part] += share[:, None, None] * values[row]
                if step < axes:
                    np.put_along_axis(
                        node, order[:, [step]],
                        np.take_along_axis(node, order[:, [step]], axis=1) + 1, axis=1,
                    )  # fmt: skip
            side //= 2
    return out


def exact_hats(claim: Claim, table: Table, x: list[Fraction]) -> np.ndarray:
    """(tokens, out_features) of fractions: Σ values hat at x, by the definition of a hat."""
    values, axes = table["values"], len(x)
    place = [(claim.steps + 1) ** (axes - 1 - axis) for axis in range(axes)]
    out = np.full(values.shape[1:], Fraction(0), dtype=object)
    largest = int(table["boxes"][:, -1].max())
    for row, key in enumerate(table["keys"].tolist()):
        node = [key // size % (claim.steps + 1) for size in place]
        reach = min(largest, *((g & -g) or largest for g in node))
        off = [claim.steps * entry - g for entry, g in zip(x, node, strict=True)]
        hat = 1 - (max(0, *off) + max(0, *(-o for o in off))) / Fraction(reach)
        if hat > 0:
            exact = np.vectorize(Fraction, otypes=[object])(values[row].numpy())
            out = out + hat * exact
    return out


def boxes_error(claim: Claim, table: Table, off: float) -> float:
    """A bound for one entry of f - T in the norm of the claim; off: the rounding of values."""
    boxes, constants = table["boxes"].numpy(), table["constants"].numpy()
    _fill_the_cube(claim, boxes)
    steep, bent = constants.T
    if constants.shape != (len(boxes), 2) or not (constants >= 0).all():
        raise Disagreement("constants of boxes: one is negative or not a number")
    _fit_the_whole(claim, steep, bent)
    _values_fit(claim, table, off)
    axes = claim.tokens * claim.features
    side = boxes[:, -1] / claim.steps
    share = 0.75 - 0.5 / (axes + 1)
    bound = np.minimum(steep * side * share, bent * side**2 * axes / 8)
    if claim.norm == "sup":
        return float(bound.max())
    log_beta = 2 * math.lgamma(claim.p + 1) - math.lgamma(2 * claim.p + 2)
    bound = np.minimum(bound, bent * side**2 * axes / 2 * math.exp(log_beta / claim.p))
    most = float(bound.max())
    if most == 0.0:
        return 0.0
    return most * float((side**axes @ (bound / most) ** claim.p) ** (1 / claim.p))


def _fit_the_whole(claim: Claim, steep: np.ndarray, bent: np.ndarray) -> None:
    """No box has more than the constant claimed for the cube, or any where none is claimed."""
    for most, boxes in ((claim.lipschitz, steep), (claim.curvature, bent)):
        if (np.isfinite(boxes) if most is None else boxes > most).any():
            raise Disagreement("a constant of a box is not within that of the cube")
    if claim.per_feature is not None and (steep < claim.lipschitz).any():
        raise Disagreement("constants per feature beside those of boxes")


def _fill_the_cube(claim: Claim, boxes: np.ndarray) -> None:
    axes = claim.tokens * claim.features
    corner, side = boxes[:, :-1], boxes[:, -1]
    if boxes.shape[1] != axes + 1 or (side < 1).any() or (side & (side - 1)).any():
        raise Disagreement("boxes: a side is not a power of two")
    outside = (corner < 0) | (corner + side[:, None] > claim.steps)
    if outside.any() or (corner % side[:, None]).any():
        raise Disagreement("boxes: one is outside the cube, or not obtained from it by halving")
    if sum(Fraction(int(one), claim.steps) ** axes for one in side) != 1:
        raise Disagreement("boxes: their volumes do not add up to 1")
    for size in np.unique(side):  # boxes made by halving overlap only if one holds the other
        for larger in np.unique(side[side >= size]):
            held = corner[side == size] // larger
            others = corner[side == larger] // larger
            both = len(np.unique(np.concatenate([np.unique(held, axis=0), others]), axis=0))
            apart = len(np.unique(held, axis=0)) + len(others)
            if both != (len(held) if size == larger else apart):
                raise Disagreement("boxes: two of them overlap")


def _values_fit(claim: Claim, table: Table, off: float) -> None:
    """f at the corners of a box, and along the axes in boxes all of whose parts are leaves."""
    keys, boxes = table["keys"].numpy(), table["boxes"].numpy()
    steep, bent = table["constants"].numpy().T
    axes = boxes.shape[1] - 1
    place = (claim.steps + 1) ** np.arange(axes - 1, -1, -1, dtype=np.int64)
    if (np.diff(keys) <= 0).any() or len(keys) != len(table["values"]):
        raise Disagreement("nodes are not in order")
    nodes = keys[:, None] // place % (claim.steps + 1)
    value = hats_at(claim, table, nodes / claim.steps).reshape(len(keys), -1)
    if np.abs(value).max() > claim.bound * (1 + 2.0**-40) + off:
        raise Disagreement(
            f"f is {np.abs(value).max():.6g} at a node, but |f| <= {claim.bound:.6g} is claimed"
        )
    noise = 1e-9 * float(np.abs(value).max()) + off

    def f(at: np.ndarray) -> np.ndarray:
        row = np.searchsorted(keys, at @ place).clip(max=len(keys) - 1)
        if (keys[row] != at @ place).any():
            raise Disagreement("a corner of a box is not a node")
        return np.asarray(value[row])

    corner, side = boxes[:, :-1], boxes[:, -1]
    high = low = f(corner)
    for which in product((0, 1), repeat=axes):
        here = f(corner + side[:, None] * np.array(which))
        high, low = np.maximum(high, here), np.minimum(low, here)
    allowed = steep * side / claim.steps
    if ((high - low).max(1) > allowed + 2 * noise).any():
        at = int(((high - low).max(1) - allowed).argmax())
        raise Disagreement(
            f"values at the corners of box {at} differ by {(high - low)[at].max():.6g}; its "
            f"constant allows {allowed[at]:.6g}"
        )
    corners = [(corner + side[:, None] * np.array(w)) @ place for w in product((0, 1), repeat=axes)]
    if len(np.unique(corners)) != len(keys):
        raise Disagreement("a node is not a corner of a box")
    for row, node in _between_corners(nodes, boxes):
        here, y = f(nodes[node]), (nodes[node] - corner[row]) / side[row, None]
        order = np.argsort(-y, axis=1)
        marks = np.pad(np.take_along_axis(y, order, axis=1), ((0, 0), (1, 1)))
        marks[:, 0] = 1.0
        walk, mean, far, square = np.zeros(y.shape), 0.0 * here, 0.0 * y[:, 0], 0.0 * y[:, 0]
        for step in range(axes + 1):
            weight = marks[:, step] - marks[:, step + 1]
            mean += weight[:, None] * f(corner[row] + side[row, None] * walk.astype(np.int64))
            far += weight * np.abs(walk - y).max(1)
            square += weight * ((walk - y) ** 2).sum(1)
            if step < axes:
                np.put_along_axis(walk, order[:, [step]], 1.0, axis=1)
        width = side[row] / claim.steps
        with np.errstate(invalid="ignore"):  # 0 times an infinite constant bounds nothing
            allowed = np.fmin(steep[row] * width * far, bent[row] * width**2 * square / 2)
        if (np.abs(here - mean).max(1) > allowed + 2 * noise).any():
            raise Disagreement("a value on the side of a box is not within its constants")
    for size in np.unique(side[side < claim.steps]):
        (rows,) = np.nonzero(side == size)
        parent, group, parts = np.unique(
            corner[rows] // (2 * size), axis=0, return_inverse=True, return_counts=True
        )
        most = np.zeros(len(parent))
        np.maximum.at(most, group.reshape(-1), bent[rows])
        start, most = parent[parts == 2**axes] * 2 * size, most[parts == 2**axes]
        for way in map(np.array, directions(axes)):
            # entries that trade places meet half-way: kinks are allowed there
            kinks = (start[:, :, None] == start[:, None]) & (way[:, None] * way == -1)
            first = start[~kinks.any((1, 2))] + 2 * size * (way < 0)
            bend = f(first) - 2 * f(first + size * way) + f(first + 2 * size * way)
            allowed = most[~kinks.any((1, 2))] * (way**2).sum() * (size / claim.steps) ** 2
            if (np.abs(bend).max(1) > allowed + 4 * noise).any():
                raise Disagreement(
                    "values at nodes in a row bend by more than the curvature of their boxes allows"
                )


def _between_corners(
    nodes: np.ndarray, boxes: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Boxes, and nodes in them that are not their corners: rows of the two, pair by pair."""
    corner, side = boxes[:, :-1], boxes[:, -1]
    base = int((corner + side[:, None]).max()) + 1
    place = base ** np.arange(corner.shape[1], dtype=np.int64)
    for size in np.unique(side):
        (rows,) = np.nonzero(side == size)
        rows = rows[np.argsort(corner[rows] @ place)]
        (inside,) = np.nonzero((nodes % size).any(1))
        for before in product((0, 1), repeat=corner.shape[1]):
            # along an axis where a node is on a border, the box after it or the one before
            border = nodes[inside] % size == 0
            taken = inside[(border | (np.array(before) == 0)).all(1)]
            low = (nodes[taken] - np.array(before)) // size * size
            at = np.searchsorted(corner[rows] @ place, low @ place).clip(max=len(rows) - 1)
            there = (corner[rows[at]] == low).all(1)
            yield rows[at[there]], taken[there]
