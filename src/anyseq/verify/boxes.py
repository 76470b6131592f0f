"""A network that sums hats over boxes of several sizes: its table, and the error that it proves.

The table holds nodes with what multiplies their hats, and boxes with the constants of f in each. It
is checked without the code that made it:

1. The boxes fill the cube: sides are powers of two, corners multiples of them, no two boxes overlap
   and the volumes add up to 1.
2. All corners of all boxes are nodes, so that T = f there. Then in a simplex of a box T is a mean
   of values of f in that simplex, and the mean of a convex function is at most its interpolant with
   the side of the box for a step: the bound of the box is that of a grid of its side, with its own
   constants.
3. The values at the corners of a box must not contradict its constants, nor those at nodes on its
   sides, where smaller boxes are next to it. There are no other nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np

from anyseq.verify.constants import directions, mean_of_products, share
from anyseq.verify.facts import Facts
from anyseq.verify.floats import TINY, UNIT
from anyseq.verify.simplices import coordinates, number
from anyseq.verify.terms import table_fits
from anyseq.verify.verdict import Disagreement, Weights

_BATCH = 1 << 14


def hats_rounding(facts: Facts, table: Weights) -> float:
    """What float64 may add to one entry of the look-up, and what must have been done to the table
    for sums to be exact at the nodes.

    The look-up sums K(D+1) products of total size 2K, K the number of levels, weights off by 3u. A
    hat of reach r with value a puts a/r, or minus that, to some ReLUs, 2^(D+1) at most, which are
    m + r at most. Where all of these take 53 bits of some unit, values of hats are multiples of R
    of these, R the largest reach, moved by half of that.
    """
    axes, bound, side = facts.axes, max(facts.bound, TINY), table["boxes"][:, -1]
    largest = int(side.max())
    levels = (largest // int(side.min())).bit_length()
    nodes = coordinates(table["keys"], facts.steps + 1, axes)
    reach = np.minimum(np.where(nodes, nodes & -nodes, largest).min(1), largest)
    size = np.abs(table["values"]).reshape(len(reach), -1)
    summed = 2 ** (axes + 1) * float((size * (facts.steps / reach + 1)[:, None]).sum(0).max())
    looked = 2 * levels * (levels * (axes + 1) + 6) + 28
    return float((looked * bound + largest * (summed + 16 * bound)) * UNIT)


def hats_at(facts: Facts, table: Weights, x: np.ndarray) -> np.ndarray:
    """(inputs, tokens, out_features): Σ values hat at x (inputs, D), in float64. On each level x is
    in one simplex, whose corners, walked to in the order of what is left of x, have its hats."""
    keys, values, steps = table["keys"], table["values"], facts.steps
    out, largest = np.zeros((len(x), *values.shape[1:])), int(table["boxes"][:, -1].max())
    for start in range(0, len(x), _BATCH):
        part, side = slice(start, start + _BATCH), largest
        while side:
            y = x[part] * (steps // side)
            node = np.minimum(y.astype(np.int64), steps // side - 1)
            order, weights = walk_weights(y - node)
            for step, weight in enumerate(weights.T):
                if step:
                    node[np.arange(len(y)), order[:, step - 1]] += 1
                key = number(node, steps + 1) * side
                row = np.searchsorted(keys, key).clip(max=len(keys) - 1)
                there = (keys[row] == key) & ((side == largest) | (node % 2).any(1))
                out[part] += (weight * there)[:, None, None] * values[row]
            side //= 2
    return out


def walk_weights(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For y (inputs, D) in the unit cube: the order in which to raise coordinates from 0 to 1, and
    the weights (inputs, D+1) of the corners on that walk, of which y is the mean."""
    order = np.argsort(-y, axis=1)
    marks = np.pad(np.take_along_axis(y, order, axis=1), ((0, 0), (1, 1)))
    marks[:, 0] = 1.0
    return order, -np.diff(marks, axis=1)


def exact_hats(facts: Facts, table: Weights, x: np.ndarray) -> np.ndarray:
    """(tokens, out_features) of fractions at x (D,): Σ values hat, by the definition of a hat. A
    grid is one where every hat reaches one step."""
    values, axes = table["values"], len(x)
    boxes = table.get("boxes", np.ones((1, 1), dtype=np.int64))
    keys, largest = table.get("keys", np.arange(len(values))), int(boxes[:, -1].max())
    nodes = coordinates(keys, facts.steps + 1, axes)
    (near,) = np.nonzero((np.abs(nodes - x * facts.steps) <= largest).all(1))
    out = np.full(values.shape[1:], Fraction(0), dtype=object)
    for row in near.tolist():
        node = nodes[row].tolist()
        reach = min(largest, *((g & -g) or largest for g in node))
        off = [facts.steps * Fraction(entry) - g for entry, g in zip(x.tolist(), node, strict=True)]
        hat = 1 - (max(0, *off) + max(0, *(-o for o in off))) / Fraction(reach)
        if hat > 0:
            out = out + hat * np.vectorize(Fraction, otypes=[object])(values[row])
    return out


def boxes_error(facts: Facts, table: Weights, off: float) -> float:
    """A bound for one entry of f - T in the norm of the claim; off: the rounding of values."""
    boxes, constants, axes = table["boxes"], table["constants"], facts.axes
    _fill_the_cube(facts, boxes)
    if constants.shape != (len(boxes), 2) or not (constants >= 0).all():
        raise Disagreement("constants of boxes: one is negative or not a number")
    steep, bent = constants.T
    for whole, own in ((facts.lipschitz, steep), (facts.curvature, bent)):
        if (np.isfinite(own) if whole is None else own > whole).any():
            raise Disagreement("a constant of a box is not within that of the cube")
    if facts.per_feature is not None and (steep < facts.lipschitz).any():
        raise Disagreement("constants per feature beside those of boxes")
    _Values(facts, table, off).fit()
    side = boxes[:, -1] / facts.steps
    bound = np.minimum(steep * side * float(share(axes)), bent * side**2 * axes / 8)
    if facts.norm == "sup":
        return float(bound.max())
    bound = np.minimum(bound, bent * side**2 * axes / 2 * mean_of_products(facts.p))
    most = float(bound.max())
    return most and most * float((side**axes @ (bound / most) ** facts.p) ** (1 / facts.p))


def _fill_the_cube(facts: Facts, boxes: np.ndarray) -> None:
    corner, side = boxes[:, :-1], boxes[:, -1]
    if boxes.shape[1] != facts.axes + 1 or (side < 1).any() or (side & (side - 1)).any():
        raise Disagreement("boxes: a side is not a power of two")
    outside = (corner < 0) | (corner + side[:, None] > facts.steps)
    if outside.any() or (corner % side[:, None]).any():
        raise Disagreement("boxes: one is outside the cube, or not obtained from it by halving")
    if sum(Fraction(int(one), facts.steps) ** facts.axes for one in side) != 1:
        raise Disagreement("boxes: their volumes do not add up to 1")
    for size in np.unique(side):  # boxes made by halving overlap only if one holds the other
        for larger in np.unique(side[side >= size]):
            held = np.unique(corner[side == size] // larger, axis=0)
            others = corner[side == larger] // larger
            both = len(np.unique(np.concatenate([held, others]), axis=0))
            if both != (np.sum(side == size) if size == larger else len(held) + len(others)):
                raise Disagreement("boxes: two of them overlap")


class _Values:
    """f at the nodes, and the constants that it must be within."""

    def __init__(self, facts: Facts, table: Weights, off: float) -> None:
        self.facts, self.keys, self.boxes = facts, table["keys"], table["boxes"]
        self.corner, self.side = self.boxes[:, :-1], self.boxes[:, -1]
        self.steep, self.bent = table["constants"].T
        if (np.diff(self.keys) <= 0).any() or len(self.keys) != len(table["values"]):
            raise Disagreement("nodes are not in order")
        self.nodes = coordinates(self.keys, facts.steps + 1, facts.axes)
        value = hats_at(facts, table, self.nodes / facts.steps)
        table_fits(facts, value, off)
        self.value = value.reshape(len(self.keys), -1)
        self.noise = 1e-9 * float(np.abs(value).max()) + off

    def f(self, at: np.ndarray) -> np.ndarray:
        key = number(at, self.facts.steps + 1)
        row = np.searchsorted(self.keys, key).clip(max=len(self.keys) - 1)
        if (self.keys[row] != key).any():
            raise Disagreement("a corner of a box is not a node")
        return np.asarray(self.value[row])

    def fit(self) -> None:
        """At the corners, at nodes between corners, and along lines where boxes were halved."""
        axes, steps = self.facts.axes, self.facts.steps
        ways = [np.array(way) for way in product((0, 1), repeat=axes)]
        corners = [self.corner + self.side[:, None] * way for way in ways]
        found = np.stack([self.f(at) for at in corners])
        apart, allowed = np.ptp(found, axis=0).max(1), self.steep * self.side / steps
        if (apart > allowed + 2 * self.noise).any():
            at = int((apart - allowed).argmax())
            raise Disagreement(
                f"values at the corners of box {at} differ by {apart[at]:.6g}; its constant allows "
                f"{allowed[at]:.6g}"
            )
        if len(np.unique(number(np.stack(corners), steps + 1))) != len(self.keys):
            raise Disagreement("a node is not a corner of a box")
        for row, node in self._between_corners():
            self._fits_between(row, node)
        for size in np.unique(self.side[self.side < steps]):
            self._fits_in_a_row(size)

    def _fits_between(self, row: np.ndarray, node: np.ndarray) -> None:
        """A node on the side of a box against the mean of corners that has its place."""
        corner, side = self.corner[row], self.side[row]
        y = (self.nodes[node] - corner) / side[:, None]
        order, weights = walk_weights(y)
        walk, mean, far, square = np.zeros_like(y), 0.0, 0.0, 0.0
        for step, weight in enumerate(weights.T):
            if step:
                walk[np.arange(len(y)), order[:, step - 1]] = 1.0
            mean = mean + weight[:, None] * self.f(corner + side[:, None] * walk.astype(np.int64))
            far = far + weight * np.abs(walk - y).max(1)
            square = square + weight * ((walk - y) ** 2).sum(1)
        width = side / self.facts.steps
        with np.errstate(invalid="ignore"):  # 0 times an infinite constant bounds nothing
            near = np.fmin(self.steep[row] * width * far, self.bent[row] * width**2 * square / 2)
        if (np.abs(self.value[node] - mean).max(1) > near + 2 * self.noise).any():
            raise Disagreement("a value on the side of a box is not within its constants")

    def _fits_in_a_row(self, size: int) -> None:
        """Three nodes in a row, where all parts of a halved box are there."""
        axes = self.facts.axes
        (rows,) = np.nonzero(self.side == size)
        parent, group, parts = np.unique(
            self.corner[rows] // (2 * size), axis=0, return_inverse=True, return_counts=True
        )
        most = np.zeros(len(parent))
        np.maximum.at(most, group.reshape(-1), self.bent[rows])
        start, most = parent[parts == 2**axes] * 2 * size, most[parts == 2**axes]
        for way in map(np.array, directions(axes)):
            # entries that trade places meet half-way: kinks are allowed there
            kinks = (start[:, :, None] == start[:, None]) & (way[:, None] * way == -1)
            plain = ~kinks.any((1, 2))
            first = start[plain] + 2 * size * (way < 0)
            bend = self.f(first) - 2 * self.f(first + size * way) + self.f(first + 2 * size * way)
            allowed = most[plain] * (way**2).sum() * (size / self.facts.steps) ** 2
            if (np.abs(bend).max(1) > allowed + 4 * self.noise).any():
                raise Disagreement(
                    "values at nodes in a row bend by more than the curvature of their boxes allows"
                )

    def _between_corners(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Boxes, and nodes in them that are not their corners: rows of the two, pair by pair."""
        base = int((self.corner + self.side[:, None]).max()) + 1
        for size in np.unique(self.side):
            (rows,) = np.nonzero(self.side == size)
            keys = number(self.corner[rows], base)
            rows, keys = rows[np.argsort(keys)], np.sort(keys)
            (inside,) = np.nonzero((self.nodes % size).any(1))
            for before in map(np.array, product((0, 1), repeat=self.facts.axes)):
                # along an axis where a node is on a border, the box after it or the one before
                border = self.nodes[inside] % size == 0
                taken = inside[(border | (before == 0)).all(1)]
                low = (self.nodes[taken] - before) // size * size
                at = np.searchsorted(keys, number(low, base)).clip(max=len(rows) - 1)
                there = (self.corner[rows[at]] == low).all(1)
                yield rows[at[there]], taken[there]
