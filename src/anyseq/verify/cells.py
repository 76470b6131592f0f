"""A network that computes one value for every sequence of cells, off the ramps.

Up to its first attention half every token is on its own. It is followed from its cell: a box of
which all entries become one number, to the bit, or are taken away. What is mixed are numbers then,
so one run for each sequence of cells is as good as all inputs, and all sequences are run (or, of
too many, some): long runs of layers as one step each (`anyseq.verify.runs`, `anyseq.verify.mixing`)
and what softmax rounds as a box. Without an order in the table, what a token becomes does not
depend on its place, so ascending sequences are enough.

On the ramps only this is known: that a clip at the end, or windows that do not overlap and are all
that is ever written to the outputs, bound |T|.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import numpy as np

from anyseq.nn import Stack
from anyseq.patterns import Full
from anyseq.positions import NoPosition
from anyseq.verify.constants import off_centre, values_fit
from anyseq.verify.facts import Facts
from anyseq.verify.floats import TINY, UNIT
from anyseq.verify.forms import Forms, sampled
from anyseq.verify.lost import cases_of, lost_pairs
from anyseq.verify.mixing import Attend, Sweep
from anyseq.verify.multisets import all_multisets, multisets_fit, with_repeats
from anyseq.verify.runs import Bumps, Look, Step, steps_of
from anyseq.verify.simplices import coordinates, number
from anyseq.verify.terms import Found, Terms, spread, table_fits
from anyseq.verify.verdict import Disagreement, Weights, fresh

_WORK = 5e9  # products in all runs together
_LEAST = 256  # sequences, however large the network is
_BATCH = 1 << 14


def cells_network(facts: Facts, network: Stack, net: Weights, table: Weights) -> Found:
    """One value per sequence of cells."""
    machine = _Machine(facts, network, net)
    values = table["values"]
    sequences, wanted = all_sequences(facts, values)
    distinct = sequences[(np.diff(sequences, axis=1) > 0).all(1)]
    keys = np.sort(number(distinct, facts.cells))
    if facts.rows == "sets" and not np.array_equal(table["keys"], keys):
        raise Disagreement("keys of the table are not the numbers of its rows")
    cost = sum(step.cost for step in machine.steps) * (facts.tokens + int(network.shape.bos))
    most, rows = max(_LEAST, int(_WORK / cost)), np.arange(len(sequences))
    if len(rows) > most:
        rows = np.sort(fresh().choice(rows, most, replace=False))
    largest, groups = 0.0, []
    for part in np.split(rows, range(_BATCH, len(rows), _BATCH)):
        out, group = machine.run(sequences[part])
        largest = max(largest, float(np.abs(out - wanted[part]).max()))
        groups.append(group)
    off = machine.rounding
    if not largest <= 2 * off:
        raise Disagreement(f"in some cells the network is off the table by {largest:.3g}")
    lost = np.zeros(sequences.shape, dtype=bool)
    if len(rows) == len(sequences) and machine.looks_last:
        cases = cases_of(sequences, facts.cells, facts.kind)
        lost = lost_pairs(np.concatenate(groups), cases)
        if not facts.by_order and lost.any():
            raise Disagreement("two tokens of different values have one window")
    elif machine.looks_last:
        raise Disagreement("too many sequences of cells to count those that are confused")
    how = "all" if len(rows) == len(sequences) else "SAMPLED, not proved:"
    text = (
        f"{machine.text}; from cells on, every layer read, at {how} {len(rows):,} of "
        f"{len(sequences):,} sequences of cells: the table"
    )
    assert facts.ramps is not None
    ramps = float(-np.expm1(facts.axes * np.log1p(-facts.ramps.measure)))
    repeats = 1 - math.prod(max(0, facts.cells - j) / facts.cells for j in range(facts.tokens))
    repeats *= facts.rows == "sets"
    shares = {"repeats": repeats, "alike": float(lost.mean())}
    reach = machine.reach(values)

    def error() -> Terms:
        table_fits(facts, values, off)
        _values_fit(facts, np.where(lost[..., None], np.nan, values) if lost.any() else values, off)
        return _terms(facts, off, ramps, shares, reach)

    exceptional = ramps + repeats + float(lost.any(1).mean())
    return Found(text, error, off + machine.rescaled, exceptional)


def all_sequences(facts: Facts, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(S, n) the cells of the tokens, and (S, n, out) what is to become of them."""
    if facts.by_order:
        return coordinates(np.arange(len(values)), facts.cells, facts.tokens), values
    rows = all_multisets(facts.cells, facts.tokens)
    return rows, with_repeats(rows, values, 0.0) if facts.rows == "sets" else values


def _terms(facts: Facts, off: float, ramps: float, shares: dict[str, float], reach: float) -> Terms:
    if facts.norm == "sup":
        raise Disagreement("on ramps nothing is proved in sup norm")
    factor, far = spread(facts), max(reach, facts.bound) + facts.bound
    terms = {
        ("cells", "cells"): off_centre(facts) * factor,
        ("ramps", "ramps"): ramps ** (1 / facts.p) * factor * far,
    }
    if off:
        terms["rounding", "cells"] = off * factor
    if facts.rows == "sets":  # T is 0 there
        terms["repeats", "repeats"] = shares["repeats"] ** (1 / facts.p) * factor * facts.bound
    if shares["alike"]:
        terms["alike", "alike"] = shares["alike"] ** (1 / facts.p) * factor * far
    return terms


def _values_fit(facts: Facts, values: np.ndarray, off: float) -> None:
    if facts.by_order:
        axes, features = facts.axes, facts.features
        grid = values.reshape(*[facts.steps] * axes, -1)
        order = [
            token * features + k for token in range(facts.tokens) for k in range(features)[::-1]
        ]
        values_fit(facts, grid.transpose(*order, axes), 2 * off)  # cells count from the last axis
        return
    rows = all_multisets(facts.cells, facts.tokens)
    multisets_fit(facts, with_repeats(rows, values, np.nan) if facts.rows == "sets" else values)


class _Machine:
    """The network from its cells on. text: how tokens start."""

    def __init__(self, facts: Facts, network: Stack, net: Weights) -> None:
        self.facts, self.net, self.bos = facts, net, int(network.shape.bos)
        layer, row, tokens = self._start(network)
        self.steps: list[Step | Attend | Sweep] = []
        self.first = -1  # the step with the first attention half
        for start, stop, layers in _segments(net, layer, row):
            self.steps += steps_of(net, start, stop)
            self.first = len(self.steps) if self.first < 0 else self.first
            rows = [int(net["halves"][at, 0]) for at in layers]
            sweep = Sweep.of(network, net, rows[:-1], 1 / facts.steps) if len(rows) > 1 else None
            self.steps += [sweep] if sweep else []
            for at, attention in list(zip(layers, rows, strict=True))[-1 if sweep else 0 :]:
                self.steps.append(Attend(network, net, attention, at))
        for step in self.steps[self.first :]:
            if isinstance(step, Look):  # what it looks up has been rounded
                step.margin = step.windows.ramp / 2
        self.low, self.high = self._alone(tokens)
        self.largest = 0.0

    def _start(self, network: Stack) -> tuple[int, int, np.ndarray]:
        """The first layer and half to be followed, and (positions, width) tokens at x = 0."""
        facts, net = self.facts, self.net
        layer, row, forms = -1, 0, Forms.entering(facts, network, net)
        self.text = "tokens start from x and what is added to it (read from the weights)"
        if any(facts.starts or ()) and not network.shape.positions:
            layer, next_layer = np.nonzero(net["halves"][:, 0] >= 0)[0][:2].tolist()
            row, stop = ((net["halves"][:at, 1] >= 0).sum() for at in (layer, next_layer))
            forms, text = sampled(facts, network, 1 + int(row))
            self.text = f"{text} are x raised by their numbers"
            while row < stop and (more := forms.fed(net, row)) is not None:
                forms, row = more, row + 1
        slope = np.zeros_like(forms.form[..., 1:])
        token, entry = np.divmod(np.arange(facts.axes), facts.features)
        slope[self.bos + token, entry, np.arange(facts.axes)] = 1.0
        start = forms.form[..., 0]
        counted = max(facts.features, facts.out_features)
        wanted = np.array(facts.starts or (0,) * facts.tokens)[:, None]
        if (
            len(wanted) != facts.tokens
            or (forms.form[..., 1:] != slope).any()
            or (start[self.bos :, :counted] != wanted).any()
        ):
            raise Disagreement("tokens do not start from x, raised by what the look-up says")
        if (forms.off > 2 * UNIT * (1 + np.abs(start)))[:, :counted].any() or (
            forms.off[:, counted:].any()
        ):
            raise Disagreement("tokens do not start from x to the bit")
        alike = network.design.cycle == (Full(),) and isinstance(
            network.design.position, NoPosition
        )
        if not facts.by_order and not (alike and (start[self.bos :] == start[-1]).all()):
            raise Disagreement("tokens are not alike, and the table holds one order of them")
        return layer, row, start

    def _alone(self, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(positions, cells, width) every token in every cell, before attention."""
        facts, ramps = self.facts, self.facts.ramps
        assert ramps is not None
        cell = np.arange(facts.cells)[:, None] // facts.steps ** np.arange(facts.features)
        below = cell % facts.steps / facts.steps
        above = np.where(
            cell % facts.steps == facts.steps - 1,
            ramps.last,
            below + (1 / facts.steps - ramps.width),
        )
        missing = (facts.steps - 1) * ramps.width + (1 - ramps.last)
        if not (above >= below).all() or not 1 > ramps.measure >= missing * (1 - 1e-12):
            raise Disagreement("ramps as wide as cells, or wider than their measure says")
        low = np.repeat(start[:, None], facts.cells, axis=1)
        high = low.copy()
        low[self.bos :, :, : facts.features] += below
        high[self.bos :, :, : facts.features] += above
        if (
            high[self.bos :, :, : facts.features] - low[self.bos :, :, : facts.features]
            != above - below
        ).any():
            raise Disagreement("the end of a cell is no number of float64")
        width = low.shape[-1]
        state = low.reshape(-1, width), high.reshape(-1, width)
        for step in self.steps[: self.first]:
            state = step(*state)
        return state[0].reshape(low.shape), state[1].reshape(low.shape)

    def run(self, sequences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The outputs for sequences of cells (S, n), and the windows that tokens ended in."""
        places = np.arange(len(self.low))
        cells = np.pad(sequences, [(0, 0), (self.bos, 0)])
        low = self.low[places, cells]
        high = self.high[places, cells] if (self.low != self.high).any() else low
        for step in self.steps[self.first :]:
            self.largest = max(self.largest, float(np.abs(low).max()))
            if isinstance(step, Attend | Sweep):
                low, high = step(low, high)
            else:
                shape, width = low.shape, low.shape[-1]
                state = step(low.reshape(-1, width), high.reshape(-1, width))
                low, high = state[0].reshape(shape), state[1].reshape(shape)
        entries = slice(self.facts.out_features)
        low, high = low[:, self.bos :, entries], high[:, self.bos :, entries]
        if (low != high).any():
            raise Disagreement("an output is not one number in a cell")
        last = self.steps[-1]
        groups = last.found if isinstance(last, Look) else None
        if groups is not None:
            groups = groups.reshape(len(cells), -1)[:, self.bos :]
        return low, np.zeros(0) if groups is None else groups

    @property
    def looks_last(self) -> bool:
        return isinstance(self.steps[-1], Look)

    @property
    def rounding(self) -> float:
        """Of one entry. Windows give values to the bit; a bump adds target - token, which rounds at
        the size of the token, and thrice at that of a value."""
        if self.looks_last:
            return 0.0
        top = max((step.top for step in self._runs), default=0.0)
        return UNIT * (top + 3 * max(self.facts.bound, TINY))

    @property
    def rescaled(self) -> float:
        """What a number that is made smaller before it is looked up loses: nothing in float64, for
        which the look-up is made."""
        return 0.0 if self.looks_last else UNIT * self.largest

    @property
    def _runs(self) -> list[Bumps]:
        return [step for step in self.steps[self.first :] if isinstance(step, Bumps)]

    def reach(self, values: np.ndarray) -> float:
        """How large |T| is at most, on ramps too."""
        last, outputs = self.steps[-1], slice(self.facts.out_features)
        if not isinstance(last, Look):
            return self._clip(values)
        if any(step.writes[outputs].any() for step in self.steps[:-1]):
            raise Disagreement("more is written to an output than its values")
        if not last.windows.apart:
            raise Disagreement("windows of values overlap")
        return float(np.abs(last.windows.values[:, outputs]).max())

    def _clip(self, values: np.ndarray) -> float:
        """The bound M of the last layers, t - ReLU(t - M) + ReLU(-t - M), twice for every output;
        no attention may come after the layers that look values up."""
        attends = [isinstance(step, Attend | Sweep) for step in self.steps]
        runs = [at for at, step in enumerate(self.steps) if step in self._runs]
        if any(attends[min(runs, default=0) :]):
            raise Disagreement("value map, clip: there is attention after they begin")
        outputs = self.facts.out_features
        each = -(-outputs // 2)
        names = ("up_weight", "up_bias", "down_weight", "down_bias")
        up, bias, down, shift = (self.net[name][-2 * each :] for name in names)
        bound = -float(bias.min())
        for feature, row in product(range(outputs), (0, each)):
            place, unit = row + feature // 2, slice(2 * (feature % 2), 2 * (feature % 2) + 2)
            if (
                up[place, unit, feature].tolist() != [1, -1]
                or down[place, feature, unit].tolist() != [-1, 1]
                or bias[place, unit].tolist() != [-bound, -bound]
            ):
                raise Disagreement("the last clip is none")
        if np.abs(up).sum() + np.abs(down).sum() != 8 * outputs or shift.any() or bound < 0:
            raise Disagreement("the last clip does more than clip")
        if float(np.abs(values).max()) > bound:
            raise Disagreement("the last clip cuts values of the table off")
        return bound


def _segments(net: Weights, layer: int, row: int) -> Iterator[tuple[int, int, list[int]]]:
    """After a layer, from feed-forward half `row` on: halves start, ..., stop-1, and the layers of
    the attention halves that follow them without one in between."""
    halves = net["halves"]
    attends = np.nonzero(halves[:, 0] >= 0)[0]
    attends = attends[attends > layer]
    before = np.cumsum(halves[:, 1] >= 0)[attends] - (halves[attends, 1] >= 0)
    for stop in np.unique(before).tolist():
        yield row, stop, attends[before == stop].tolist()
        row = stop
    yield row, len(net["up_bias"]), []
