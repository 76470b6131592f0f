"""A network that is a mean over grids of cells, by windows, one mean, weights and windows again.

    T_i(X) = Σ_s w_s f_i(centres of the cells of X in grid s).

The layers must be, in this order, n' being the number of positions, BOS among them:

    per grid s       per entry a: its cell c_a is counted up, c += N^a c_a; ramps between cells
                     are marked, b_s += 1 on a ramp, falling to 0 within a margin
                     W_s = windows of c; c is cleared
    attention        all queries are 0, so weights do not depend on x: one run on units shows that
                     they are 1/n'; W_s grows by (n'/B) mean W_s, b_s by 2n' mean b_s
    clear            x becomes 0, c becomes 1
    fill             r = 1; for every s: g_s = ReLU(1 - b_s), w_s = min(r, g_s), r -= w_s
    per grid s       windows of W_s with gate w_s: the values of the table

Whole numbers of the width γ of a ramp say exactly that every ramp is marked, and that no entry is
on a mark, or its margin, of two grids. So D entries mar at most D of the S > D grids, some b_s is 0
to the bit everywhere, and the w_s have sum 1. A marked ramp makes w_s = 0 to the bit in all tokens.
Otherwise all cells are cells, and W_s is, but for rounding, the integer

    key = B w(own cell) + Σ_j w(cell of token j) + w(cell of BOS),    W = B w as read.

For all multisets of cells and all their tokens the window at that key is looked up: its value must
be the table's, to the bit. Hence T is a mean of values of f at centres no further from x than the
borders that were read allow.

Rounding. r falls from 1 to 0 in floats, so the differences are weights of sum 1. What the gates
hold is off those by 4u (three terms are summed, then added to g, and r is rounded once more than
the sum), products by u, and the sum over S grids by u each: (5S+1)u of the largest |f|.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch

from anyseq.nn import Stack
from anyseq.verify.constants import lipschitz
from anyseq.verify.facts import Facts
from anyseq.verify.floats import TINY, UNIT
from anyseq.verify.forms import Forms
from anyseq.verify.multisets import all_multisets, multisets_fit, outputs_at
from anyseq.verify.runs import Look, Plain, Step, steps_of
from anyseq.verify.terms import Found, spread, table_fits
from anyseq.verify.verdict import Disagreement, Weights
from anyseq.verify.windows import Windows

_NOISE = 0.24  # what a key may be off: windows are 1/4 wide to both sides


@dataclass(frozen=True)
class Grids:
    """The function: b_s of a token is what its entries mark of grid s, token i allows grid s
    ReLU(1 - b_s - 2 Σ_j b_s(j)), b_s its own, and one grid after the other takes of 1 what is left
    and allowed. marks: windows by grid, then by feature."""

    facts: Facts
    marks: list[list[Windows]]
    values: np.ndarray

    @property
    def hard(self) -> np.ndarray:
        """Entries on ramps, and on both margins."""
        marks = [mark for grid in self.marks for mark in grid]
        places = [(mark.low + part * mark.ramp) for mark in marks for part in (-0.8, 0.4, 1.9)]
        return np.concatenate(places)

    def exact(self, x: np.ndarray) -> list[list[Fraction]]:
        """Σ_s w_s f(centres in grid s) at x (tokens, features)."""
        places = [self.facts.steps**feature for feature in range(self.facts.features)]
        left = np.array([Fraction(1)] * len(x))
        total = np.full(self.values.shape[1:], Fraction(0), dtype=object)
        for marks in self.marks:
            bad = np.array(
                [sum(map(_marked, marks, token), Fraction(0)) for token in x.tolist()], dtype=object
            )
            weights = np.minimum(left, np.maximum(1 - bad - 2 * bad.sum(), 0))
            left = left - weights
            cell = [np.searchsorted(m.high, x[:, k], side="right") for k, m in enumerate(marks)]
            number = (np.stack(cell, axis=1) @ places)[None]
            outputs = outputs_at(self.values, number, self.facts.cells)[0]
            total += np.vectorize(Fraction, otypes=[object])(outputs) * weights[:, None]
        return [list(outputs) for outputs in total]


def _marked(mark: Windows, entry: float) -> Fraction:
    """What an entry of x adds to b_s."""
    near = (mark.low - mark.ramp < entry) & (entry < mark.high + mark.ramp)
    outside = (
        max(Fraction(low) - Fraction(entry), Fraction(entry) - Fraction(high), Fraction(0))
        for low, high in zip(mark.low[near], mark.high[near], strict=True)
    )
    return sum((1 - Fraction(mark.slope) * far for far in outside), Fraction(0))


def grids_network(facts: Facts, network: Stack, net: Weights, table: Weights) -> Found:
    """Read layer by layer."""
    values = table["values"]
    reader = _Reader(facts, network, net)
    rows = all_multisets(facts.cells, facts.tokens)
    marks, numbers = zip(*map(reader.grid, range(reader.grids)), strict=True)
    off = _off_centre(facts, list(marks))
    bases = reader.mean()
    reader.weigh()
    keys = [
        reader.keys(grid, number, base, rows, values)
        for grid, (number, base) in enumerate(zip(numbers, bases, strict=True))
    ]
    if reader.steps:
        raise Disagreement(f"{len(reader.steps)} steps too many")
    multisets_fit(facts, values)
    rounding = (5 * reader.grids + 1) * UNIT * max(float(np.abs(values).max()), TINY)
    text = (
        f"{reader.grids} grids, the mean, and the windows of {keys[0]:,} keys of "
        f"{len(rows):,} multisets of cells, read from the weights"
    )

    def error() -> dict[tuple[str, str], float]:
        table_fits(facts, values, rounding)
        terms = {"cells": lipschitz(facts) * off, "rounding": rounding}
        return {(name, "cells"): value * spread(facts) for name, value in terms.items()}

    return Found(text, error, rounding, mean=Grids(facts, list(marks), values))


class _Reader:
    """Features: input and output | number of the cell | keys (S) | marks (S) | of windows."""

    def __init__(self, facts: Facts, network: Stack, net: Weights) -> None:
        self.facts, self.network, self.net = facts, network, net
        self.grids = network.shape.head_dim // 2  # S: a head averages two numbers of each
        self.size = facts.tokens + network.shape.bos
        self.number_at = max(facts.features, facts.out_features)
        self.keys_at = self.number_at + 1
        self.marks_at = self.keys_at + self.grids
        if self.grids <= facts.axes:
            raise Disagreement(f"{self.grids} grids, not more than entries can spoil")
        layers = np.nonzero(net["halves"][:, 0] >= 0)[0].tolist()
        if len(layers) != 1:
            raise Disagreement(f"{len(layers)} attention layers")
        (self.layer,) = layers
        if Forms.entering(facts, network, net).form[..., 0].any():
            raise Disagreement("something is added to x before the first layer")
        self.row = int((net["halves"][: self.layer, 1] >= 0).sum())
        self.steps: list[Step] = steps_of(net, 0, self.row)

    def _windows(
        self, what: str, at: int, into: int, count: int, outputs: int = 1, gate: int | None = None
    ) -> Windows:
        """The next step is windows of one feature, with values for features into, into+1, ..., and
        what features they have themselves are of no other use."""
        step = self.steps.pop(0) if self.steps else None
        if not isinstance(step, Look) or len(step.windows.low) != count:
            raise Disagreement(f"{what}: no windows, or other ones")
        found = step.windows
        own = (found.nodes >= self.marks_at + self.grids).all()
        inside = set(found.into) <= set(range(into, into + outputs))
        if (found.at, found.gate) != (at, gate) or not own or not inside:
            raise Disagreement(f"{what}: windows of other features")
        return found

    def _blank(self) -> Plain:
        """A layer of zeros."""
        hidden, width = self.net["up_weight"].shape[1:]
        return Plain(
            np.zeros((hidden, width)), np.zeros(hidden), np.zeros((width, hidden)), np.zeros(width)
        )

    def _expect(self, wanted: Plain, what: str) -> None:
        """The next step is this layer, units that nothing reads aside."""
        step, used = self.steps.pop(0) if self.steps else None, wanted.down.any(0)
        if not isinstance(step, Plain) or not (
            np.array_equal(step.up, wanted.up[used])
            and np.array_equal(step.up_bias, wanted.up_bias[used])
            and np.array_equal(step.down, wanted.down[:, used])
            and np.array_equal(step.down_bias, wanted.down_bias)
        ):
            raise Disagreement(f"{what}: it is another layer")

    def _clearing(self, first: int, count: int) -> Plain:
        """Features first, ..., first+count-1 become x - ReLU(x) + ReLU(-x) = 0."""
        layer, feature = self._blank(), np.arange(count)
        for unit, sign in ((2 * feature, 1.0), (2 * feature + 1, -1.0)):
            layer.up[unit, first + feature] = sign
            layer.down[first + feature, unit] = -sign
        return layer

    def grid(self, grid: int) -> tuple[list[Windows], np.ndarray]:
        """The marks of each feature, and W of each cell."""
        facts, what = self.facts, f"grid {grid}"
        marks = []
        for feature in range(facts.features):
            steps = self._windows(what, feature, self.number_at, facts.steps - 1)
            mark = self._windows(what, feature, self.marks_at + grid, facts.steps - 1)
            count = steps.values[:, self.number_at]
            if (steps.high < 1).any() or (count != facts.steps**feature).any():
                raise Disagreement(f"{what}: it does not count cells up")
            ends = _whole(steps.low, steps.slope)
            low, high = (_whole(part, steps.slope) for part in (mark.low, mark.high))
            ones = (mark.values[:, self.marks_at + grid] == 1).all()
            if (low > ends - 1).any() or (high != ends).any() or not ones:
                raise Disagreement(f"{what}: a ramp between two cells is not marked")
            marks.append(mark)
        number = self._windows(what, self.number_at, self.keys_at + grid, facts.cells)
        cell = np.arange(facts.cells)
        found = number.find(cell * 1.0, cell * 1.0)
        if found.shape != cell.shape or (found != cell).any() or (number.low <= cell - 1).any():
            raise Disagreement(f"{what}: a window is not at the number of its cell")
        self._expect(self._clearing(self.number_at, 1), what)
        return marks, number.values[:, self.keys_at + grid]

    def mean(self) -> list[int]:
        """B of each grid."""
        net, size, count = self.net, self.size, 2 * self.grids
        if self.steps:
            raise Disagreement("the mean is not where the grids end")
        cycle = self.network.design.cycle
        scores = any(net[name].any() for name in ("q_weight", "q_bias", "k_weight"))
        if scores or cycle[self.layer % len(cycle)].differs:
            raise Disagreement("mean: scores depend on the input")
        out, read = net["o_weight"][0], net["v_weight"][0]
        feature, column = np.nonzero(out)
        wanted = np.eye(len(out))[self.keys_at : self.keys_at + count]
        if (
            not np.array_equal(feature, self.keys_at + np.arange(count))
            or not np.array_equal(read[column], wanted)
            or np.count_nonzero(read) != count
        ):
            raise Disagreement("mean: it reads or writes other features than keys and marks")
        factor = out[feature, column]
        units = torch.eye(size, dtype=torch.float64)[:, :, None].repeat(1, 1, out.shape[0])
        with torch.no_grad():
            found = self.network.attend(units, self.layer).numpy()[:, :, feature]
        if not (np.abs(found * size - factor) <= 8 * UNIT * np.abs(factor)).all():
            raise Disagreement("mean: some position counts more than another")
        base = size / factor[: self.grids]
        if not (base >= 1).all() or (np.log2(base) % 1).any():
            raise Disagreement("mean: sums of keys are not whole numbers")
        if (factor[self.grids :] != 2 * size).any():
            raise Disagreement("mean: a mark of one token does not count twice for all")
        self.steps = steps_of(net, self.row, len(net["up_bias"]))
        return [int(each) for each in base]

    def weigh(self) -> None:
        """x becomes 0 and the number of the cell, 0 until here, 1; then all b become g; then for
        one grid after the other units r, r - g, g."""
        layer, rest = self._clearing(0, self.facts.features), self.number_at
        layer.down_bias[rest] = 1.0
        self._expect(layer, "clear")
        layer = self._clearing(self.marks_at, self.grids)
        layer.up_bias[1 : 2 * self.grids : 2] = 1.0
        self._expect(layer, "fill")
        for mark in range(self.marks_at, self.marks_at + self.grids):
            layer = self._blank()
            layer.up[:2, rest] = 1.0
            layer.up[1:3, mark] = [-1.0, 1.0]
            layer.down[rest, :2] = [-1.0, 1.0]
            layer.down[mark, :3] = [1.0, -1.0, -1.0]
            self._expect(layer, "fill")

    def keys(
        self, grid: int, number: np.ndarray, base: int, rows: np.ndarray, values: np.ndarray
    ) -> int:
        """How many windows there are."""
        facts, what, outputs = self.facts, f"keys of grid {grid}", values.shape[2]
        if (number % base).any() or number.min() < 0 or number.max() >= 2.0**52:
            raise Disagreement(f"{what}: not whole numbers that float64 holds")
        own, weight = number.astype(np.int64), number.astype(np.int64) // base
        sums = weight[rows].sum(1, keepdims=True) + weight[0] * self.network.shape.bos
        wanted = own[rows] + sums
        largest = float(wanted.max())
        noise = (self.size + 9) * UNIT * float(sums.max()) + float(np.spacing(largest)) / 2
        if largest >= 2.0**52 or noise > _NOISE:
            raise Disagreement(f"{what}: they round by {noise:.2g}")
        count = facts.cells * math.comb(facts.cells + facts.tokens - 2, facts.tokens - 1)
        if len(np.unique(wanted)) != count:
            raise Disagreement(f"{what}: two sequences of cells have one key")
        windows = self._windows(
            what, self.keys_at + grid, 0, count, outputs, gate=self.marks_at + grid
        )
        found = windows.find(wanted - noise, wanted + noise)
        if found.shape != wanted.shape or len(np.unique(found)) != count or (found < 0).any():
            raise Disagreement(f"{what}: a window is not at its key, or reaches the next")
        if not np.array_equal(windows.values[found, :outputs], values):
            raise Disagreement(f"{what}: a value is not the table's")
        return count


def _off_centre(facts: Facts, marks: list[list[Windows]]) -> float:
    """The largest distance of an entry that is on no mark from the centre of its cell. No entry may
    be on, or in the margin of, marks of two grids; 0 is on none, for BOS."""
    worst = 0.0
    for feature in range(facts.features):
        own = [grid[feature] for grid in marks]
        finest = max(mark.slope for mark in own)
        margin = [round(finest / mark.slope) for mark in own]
        low = np.concatenate([_whole(m.low, finest) - w for m, w in zip(own, margin, strict=True)])
        high = np.concatenate(
            [_whole(m.high, finest) + w for m, w in zip(own, margin, strict=True)]
        )
        order = np.argsort(low, kind="stable")
        if (high[order][:-1] > low[order][1:]).any() or low.min() < 0:
            raise Disagreement("marks of two grids meet: one entry spoils both")
        centre = _whole((np.arange(facts.steps) + 0.5) / facts.steps, finest)
        for mark in own:
            first = np.concatenate([[0], _whole(mark.high, finest)])
            last = np.concatenate([_whole(mark.low, finest), [round(finest)]])
            reach = max(int(np.abs(part - centre).max()) for part in (first, last))
            worst = max(worst, reach / finest)
    return worst


def _whole(places: np.ndarray, unit: float) -> np.ndarray:
    """Places in units of a ramp: whole numbers."""
    scaled = places * unit
    if (scaled != np.round(scaled)).any() or np.abs(scaled).max() >= 2.0**52:
        raise Disagreement("a border is not a multiple of the width of a ramp")
    return np.asarray(scaled.astype(np.int64))
