"""Method "sum", read from its weights: windows that find cells, one mean, weights, windows of keys.

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
from collections.abc import Mapping

import numpy as np
import torch

from anyseq.construct.verifiers.claim import Claim
from anyseq.construct.verifiers.verify_front import Weights
from anyseq.construct.verifiers.verify_grids import Grids
from anyseq.construct.verifiers.verify_multisets import all_multisets, values_fit_lipschitz
from anyseq.construct.verifiers.verify_terms import Disagreement, lipschitz
from anyseq.construct.verifiers.verify_windows import FeedForwardReader, Windows
from anyseq.nn import Stack

_UNIT = 2.0**-53
_NOISE = 0.24  # what a key may be off: windows are 1/4 wide to both sides


def sum_network(
    claim: Claim, network: Stack, net: Weights, table: Mapping[str, torch.Tensor]
) -> tuple[str, dict[str, float], Grids]:
    """What was found; the error within cells and the rounding of one entry; the function."""
    values = table["values"].numpy()
    reader = _Reader(claim, network, net)
    rows = all_multisets(reader.cells, claim.tokens)
    reader.starts_from_x()
    marks, numbers = zip(*map(reader.grid, range(reader.grids)), strict=True)
    off = reader.off_centre(list(marks))
    bases = reader.mean()
    reader.clear()
    reader.fill()
    keys = [
        reader.keys(grid, number, base, rows, values)
        for grid, (number, base) in enumerate(zip(numbers, bases, strict=True))
    ]
    if reader.rows.row != len(net["up_bias"]):
        raise Disagreement(f"{len(net['up_bias']) - reader.rows.row} feed-forward layers too many")
    values_fit_lipschitz(claim, values)
    largest = max(float(np.abs(values).max()), 2.0**-960)
    text = (
        f"{reader.grids} grids, the mean, and the windows of {keys[0]:,} keys of "
        f"{len(rows):,} multisets of cells, read from the weights"
    )
    measured = {
        "cells": lipschitz(claim) * off,
        "rounding": (5 * reader.grids + 1) * _UNIT * largest,
    }
    return text, measured, Grids(claim, list(marks), values)


class _Reader:
    """Features: input and output | number of the cell | keys (S) | marks (S) | of windows."""

    def __init__(self, claim: Claim, network: Stack, net: Weights) -> None:
        self.claim, self.network, self.net = claim, network, net
        self.grids = network.shape.head_dim // 2  # S: a head averages two numbers of each
        self.cells, self.size = claim.steps**claim.features, claim.tokens + network.shape.bos
        self.number_at = max(claim.features, claim.out_features)
        self.keys_at = self.number_at + 1
        self.marks_at = self.keys_at + self.grids
        self.rows = FeedForwardReader(net, self.marks_at + self.grids)
        if self.grids <= claim.tokens * claim.features:
            raise Disagreement(f"{self.grids} grids, not more than entries can spoil")
        self.layer = np.nonzero(net["halves"][:, 0] >= 0)[0].tolist()
        if len(self.layer) != 1:
            raise Disagreement(f"{len(self.layer)} attention layers")

    def starts_from_x(self) -> None:
        """What enters is x and zeros, BOS zeros only."""
        nothing = torch.zeros(1, self.claim.tokens, self.claim.features, dtype=torch.float64)
        with torch.no_grad():
            _, state = next(iter(self.network.trace(nothing)))
        if state.any():
            raise Disagreement("something is added to x before the first layer")

    def grid(self, grid: int) -> tuple[list[Windows], np.ndarray]:
        """The marks of each feature, and W of each cell."""
        claim, what = self.claim, f"grid {grid}"
        marks = []
        for feature in range(claim.features):
            steps = self.rows.windows(claim.steps - 1, what, at=feature, into=self.number_at)
            mark = self.rows.windows(claim.steps - 1, what, at=feature, into=self.marks_at + grid)
            if (steps.high < 1).any() or (steps.values != claim.steps**feature).any():
                raise Disagreement(f"{what}: it does not count cells up")
            ends = _whole(steps.low, steps.slope)
            low, high = (_whole(part, steps.slope) for part in (mark.low, mark.high))
            if (low > ends - 1).any() or (high != ends).any() or (mark.values != 1).any():
                raise Disagreement(f"{what}: a ramp between two cells is not marked")
            marks.append(mark)
        number = self.rows.windows(self.cells, what, at=self.number_at, into=self.keys_at + grid)
        cell, away = np.arange(self.cells), number.ramp
        if (
            (number.low > cell).any()
            or (number.high < cell).any()
            or ((number.low - away < cell - 1) | (number.high + away > cell + 1)).any()
        ):
            raise Disagreement(f"{what}: a window is not at the number of its cell")
        self.rows.expect(self.rows.clearing(self.number_at, 1), what)
        return marks, number.values[:, 0]

    def off_centre(self, marks: list[list[Windows]]) -> float:
        """The largest distance of an entry that is on no mark from the centre of its cell. No entry
        may be on, or in the margin of, marks of two grids; 0 is on none, for BOS."""
        steps, worst = self.claim.steps, 0.0
        for feature in range(self.claim.features):
            own = [grid[feature] for grid in marks]
            finest = max(mark.slope for mark in own)
            margin = [round(finest / mark.slope) for mark in own]
            low = np.concatenate(
                [_whole(m.low, finest) - w for m, w in zip(own, margin, strict=True)]
            )
            high = np.concatenate(
                [_whole(m.high, finest) + w for m, w in zip(own, margin, strict=True)]
            )
            order = np.argsort(low, kind="stable")
            if (high[order][:-1] > low[order][1:]).any() or low.min() < 0:
                raise Disagreement("marks of two grids meet: one entry spoils both")
            centre = _whole((np.arange(steps) + 0.5) / steps, finest)
            for mark in own:
                first = np.concatenate([[0], _whole(mark.high, finest)])
                last = np.concatenate([_whole(mark.low, finest), [round(finest)]])
                reach = max(int(np.abs(part - centre).max()) for part in (first, last))
                worst = max(worst, reach / finest)
        return worst

    def mean(self) -> list[int]:
        """B of each grid."""
        net, size, count = self.net, self.size, 2 * self.grids
        (layer,) = self.layer
        if int((net["halves"][:layer, 1] >= 0).sum()) != self.rows.row:
            raise Disagreement("the mean is not where the grids end")
        cycle = self.network.design.cycle
        scores = any(net[name].any() for name in ("q_weight", "q_bias", "k_weight"))
        if scores or cycle[layer % len(cycle)].differs:
            raise Disagreement("mean: scores depend on the input")
        out, read = net["o_weight"][0], net["v_weight"][0]
        feature, column = np.nonzero(out)
        wanted = np.zeros((count, out.shape[0]))
        wanted[np.arange(count), self.keys_at + np.arange(count)] = 1.0
        if (
            not np.array_equal(feature, self.keys_at + np.arange(count))
            or not np.array_equal(read[column], wanted)
            or np.count_nonzero(read) != count
        ):
            raise Disagreement("mean: it reads or writes other features than keys and marks")
        factor = out[feature, column]
        units = torch.eye(size, dtype=torch.float64)[:, :, None].repeat(1, 1, out.shape[0])
        mixer = self.network[layer].mixer
        assert mixer is not None
        with torch.no_grad():
            found = mixer(units).numpy()[:, :, feature]
        if not (np.abs(found * size - factor) <= 8 * _UNIT * np.abs(factor)).all():
            raise Disagreement("mean: some position counts more than another")
        base = size / factor[: self.grids]
        if not (base >= 1).all() or (np.log2(base) % 1).any():
            raise Disagreement("mean: sums of keys are not whole numbers")
        if (factor[self.grids :] != 2 * size).any():
            raise Disagreement("mean: a mark of one token does not count twice for all")
        return [int(each) for each in base]

    def clear(self) -> None:
        """x becomes 0, the number of the cell, 0 until here, becomes 1."""
        layer = self.rows.clearing(0, self.claim.features)
        layer["down_bias"][self.number_at] = 1.0
        self.rows.expect(layer, "clear")

    def fill(self) -> None:
        """First all g; then for one grid after the other units r, r - g, g."""
        reader, rest, own = self.rows, self.number_at, self.marks_at + np.arange(self.grids)
        layer, bad = reader.blank(), 2 * np.arange(self.grids)
        for unit, sign in ((bad, 1.0), (bad + 1, -1.0)):
            layer["up_weight"][unit, own] = sign
            layer["down_weight"][own, unit] = -sign
        layer["up_bias"][bad + 1] = 1.0
        reader.expect(layer, "fill")
        for mark in own.tolist():
            layer = reader.blank()
            layer["up_weight"][:2, rest] = 1.0
            layer["up_weight"][1:3, mark] = [-1.0, 1.0]
            layer["down_weight"][rest, :2] = [-1.0, 1.0]
            layer["down_weight"][mark, :3] = [1.0, -1.0, -1.0]
            reader.expect(layer, "fill")

    def keys(
        self, grid: int, number: np.ndarray, base: int, rows: np.ndarray, values: np.ndarray
    ) -> int:
        """How many windows there are."""
        what, outputs = f"keys of grid {grid}", values.shape[2]
        if (number % base).any() or number.min() < 0 or number.max() >= 2.0**52:
            raise Disagreement(f"{what}: not whole numbers that float64 holds")
        own, weight = number.astype(np.int64), number.astype(np.int64) // base
        sums = weight[rows].sum(1, keepdims=True) + weight[0] * self.network.shape.bos
        wanted = own[rows] + sums
        largest = float(wanted.max())
        noise = (self.size + 9) * _UNIT * float(sums.max()) + float(np.spacing(largest)) / 2
        if largest >= 2.0**52 or noise > _NOISE:
            raise Disagreement(f"{what}: they round by {noise:.2g}")
        distinct = np.unique(wanted)
        others = math.comb(self.cells + self.claim.tokens - 2, self.claim.tokens - 1)
        if len(distinct) != self.cells * others:
            raise Disagreement(f"{what}: two sequences of cells have one key")
        found = self.rows.windows(
            len(distinct), what, at=self.keys_at + grid, into=0, outputs=outputs,
            gate=self.marks_at + grid,
        )  # fmt: skip
        away = 1.01 * found.ramp + noise
        if (found.low > distinct - noise).any() or (found.high < distinct + noise).any():
            raise Disagreement(f"{what}: a window is not at its key")
        if (found.low[1:] - distinct[:-1] < away).any() or (
            distinct[1:] - found.high[:-1] < away
        ).any():
            raise Disagreement(f"{what}: a window reaches the next key")
        held = found.values[np.searchsorted(distinct, wanted)]
        if not np.array_equal(held, values):
            raise Disagreement(f"{what}: a value is not the table's")
        return len(distinct)


def _whole(places: np.ndarray, unit: float) -> np.ndarray:
    """Places in units of a ramp: whole numbers."""
    scaled = places * unit
    if (scaled != np.round(scaled)).any() or np.abs(scaled).max() >= 2.0**52:
        raise Disagreement("a border is not a multiple of the width of a ramp")
    return np.asarray(scaled.astype(np.int64))
