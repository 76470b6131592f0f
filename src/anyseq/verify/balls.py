"""Some inputs through the network in ball arithmetic (python-flint), against the table.

Balls of 300 bits hold the exact output of the network at an input, whatever float64 does. It must
be what the table says at that input, in exact arithmetic too, to within the rounding claimed. A
function that is more than a table look-up evaluates itself, in fractions or in balls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from anyseq.verify.boxes import exact_hats
from anyseq.verify.facts import Facts
from anyseq.verify.forms import LEAD
from anyseq.verify.multisets import outputs_at
from anyseq.verify.simplices import number
from anyseq.verify.terms import Found, Mean
from anyseq.verify.verdict import Disagreement, Skipped, Weights, fresh

_BITS = 300
_WORK = 400_000  # weights that are not 0, times tokens, for all inputs together
_MOST = 4 * _WORK  # for one input
_INPUTS = 8

Ball = Any  # flint.arb, which has no types
Token = dict[int, Ball]  # features that are not 0


def random_inputs(shape: tuple[int, ...], mean: Mean | None) -> np.ndarray:
    """(inputs, tokens, features); of every other input half of the entries are hard."""
    rng = fresh()
    x = rng.random(shape)
    if mean is not None:
        hard = rng.choice(mean.hard, shape)
        x[1::2] = np.where(rng.random(shape) < 0.5, hard, x)[1::2]
    return x


def balls_agree(facts: Facts, net: Weights, table: Weights, found: Found, size: int) -> str:
    """Inputs in random cells; size: of a head."""
    try:
        from flint import ctx
    except ImportError:
        raise Skipped("python-flint is not installed: pip install 'anyseq[flint]'") from None
    used = facts.tokens * sum(int(np.count_nonzero(tensor)) for tensor in net.values())
    if used > _MOST:
        raise Skipped(f"{used:,} products a run, more than the {_MOST:,} that are done")
    count = min(_INPUTS, max(1, _WORK // used))
    inputs, worst = random_inputs((count, facts.tokens, facts.features), found.mean), 0.0
    before, ctx.prec = ctx.prec, _BITS
    try:
        run = _Run(facts, net, size)
        for x in inputs:
            wanted = _look_up(facts, table, x) if found.mean is None else found.mean.exact(x)
            for token, outputs in zip(run(x), wanted, strict=True):
                for k, value in enumerate(outputs):
                    gap = abs(token.get(k, _ball(0.0)) - _ball(value))
                    if not gap <= found.off:
                        raise Disagreement(
                            f"at x = {x.tolist()} the network is off the table by "
                            f"{float(gap.upper()):.3g}"
                        )
                    worst = max(worst, float(gap.upper()))
    finally:
        ctx.prec = before
    return f"{count} inputs in balls of {_BITS} bits, off the table by at most {worst:.2g}"


def _ball(value: float | Fraction) -> Ball:
    from flint import arb

    if isinstance(value, Fraction):
        return arb(value.numerator) / arb(value.denominator)
    return arb(value)


class _Matrix:
    """x -> W x + b on sparse x, by the columns of W."""

    def __init__(self, weight: np.ndarray, shift: np.ndarray | None = None) -> None:
        self.columns: dict[int, list[tuple[int, float]]] = {}
        for row, column in zip(*(side.tolist() for side in np.nonzero(weight)), strict=True):
            self.columns.setdefault(column, []).append((row, float(weight[row, column])))
        self.shift = {} if shift is None else _vector(shift)

    def __call__(self, x: Token) -> Token:
        out = dict(self.shift)
        for column, rows in self.columns.items():
            if column in x:
                for row, value in rows:
                    term = x[column] * value
                    out[row] = out[row] + term if row in out else term
        return out


class _Feed:
    """What a feed-forward half makes of a token.

    Where down takes ReLU(t) away from t, min(t, 0) is left; as a difference of balls it would be
    twice as wide as t, in every layer that clears.
    """

    def __init__(self, net: Weights, row: int) -> None:
        up, bias, down = net["up_weight"][row], net["up_bias"][row], net["down_weight"][row].copy()
        self.cleared: set[int] = set()
        for unit in np.nonzero((np.count_nonzero(up, axis=1) == 1) & (bias == 0))[0].tolist():
            feature = int(np.nonzero(up[unit])[0][0])
            if up[unit, feature] == 1 and down[feature, unit] == -1 and feature not in self.cleared:
                self.cleared.add(feature)
                down[feature, unit] = 0.0
        self.up, self.down = _Matrix(up, bias), _Matrix(down, net["down_bias"][row])

    def __call__(self, token: Token) -> None:
        more = self.down(_relu(self.up(token)))
        for feature in self.cleared & token.keys():
            token.update({k: -value for k, value in _relu({feature: -token.pop(feature)}).items()})
        _add(token, more)


class _Attend:
    """What an attention half adds to all tokens: to the keys of tokens, or of a memory."""

    def __init__(self, facts: Facts, net: Weights, row: int, size: int) -> None:
        self.memory = row >= len(net["q_weight"])
        if self.memory:
            assert facts.memory is not None
            (slots, into), key = facts.memory, net["memory_key"]
            self.score = _Matrix(np.pad(key[:, :-1], [(0, 0), (slots, 0)]), key[:, -1])
            self.value = _Matrix(np.pad(net["memory_value"].T, [(into, 0), (0, 0)]))
            self.keys = range(len(key))
            return
        self.query = _Matrix(net["q_weight"][row], net["q_bias"][row])
        self.key, self.own, self.out = (_Matrix(net[f"{name}_weight"][row]) for name in "kvo")
        self.heads = [range(at, at + size) for at in range(0, net["q_bias"].shape[1], size)]

    def __call__(self, state: list[Token]) -> list[Token]:
        if self.memory:
            scores = [self.score(token) for token in state]
            laws = [_softmax([one.get(k, _ball(0.0)) for k in self.keys]) for one in scores]
            return [self.value(dict(enumerate(law))) for law in laws]
        keys, values = [self.key(token) for token in state], [self.own(token) for token in state]
        return [self.out(self._mixed(self.query(token), keys, values)) for token in state]

    def _mixed(self, query: Token, keys: list[Token], values: list[Token]) -> Token:
        own: Token = {}
        for head in self.heads:
            scores = [
                sum((query[i] * key[i] for i in head if i in query and i in key), _ball(0.0))
                for key in keys
            ]
            for weight, value in zip(_softmax(scores), values, strict=True):
                if weight != 0:
                    _add(own, {i: weight * value[i] for i in head if i in value})
        return own


class _Run:
    """All layers."""

    def __init__(self, facts: Facts, net: Weights, size: int) -> None:
        self.net, self.layers = (
            net,
            [
                (
                    None if attention < 0 else _Attend(facts, net, attention, size),
                    None if feedforward < 0 else _Feed(net, feedforward),
                )
                for attention, feedforward in net["halves"].tolist()
            ],
        )

    def __call__(self, x: np.ndarray) -> list[Token]:
        net, state = self.net, [{k: _ball(v) for k, v in enumerate(token)} for token in x.tolist()]
        for token in state:
            _add(token, _vector(net.get("constant", np.zeros(1))))
        if "bos" in net:
            state.insert(0, _vector(net["bos"]))
        for token, own in zip(state, net.get("position", np.zeros((len(state), 1))), strict=True):
            _add(token, _vector(own))
        for attend, feed in self.layers:
            if attend is not None:
                for token, more in zip(state, attend(state), strict=True):
                    _add(token, more)
            if feed is not None:
                for token in state:
                    feed(token)
        return state[len(state) - len(x) :]


def _vector(entries: np.ndarray) -> Token:
    return {int(k): _ball(entries[k]) for k in np.nonzero(entries)[0]}


def _softmax(scores: list[Ball]) -> list[Ball]:
    """exp(s_j - s_m) / Σ, s_m the largest; where it leads by so much that all others vanish in
    float64, it alone counts."""
    winner = max(range(len(scores)), key=lambda place: float(scores[place].mid()))
    top = scores[winner]
    if all(top - other > LEAD for place, other in enumerate(scores) if place != winner):
        return [_ball(float(place == winner)) for place in range(len(scores))]
    powers = [(score - top).exp() for score in scores]
    whole = sum(powers, _ball(0.0))
    return [power / whole for power in powers]


def _relu(hidden: Token) -> Token:
    kept = {}
    for unit, value in hidden.items():
        if value > 0:
            kept[unit] = value
        elif not value <= 0:  # the ball holds 0
            kept[unit] = _ball(0.0).union(value.upper())
    return kept


def _add(token: Token, more: Mapping[int, Ball]) -> None:
    for key, value in more.items():
        token[key] = token[key] + value if key in token else value


def _look_up(facts: Facts, table: Weights, x: np.ndarray) -> Iterable[list[float | Fraction]]:
    """The table at x, exactly."""
    values, steps = table["values"], facts.steps
    if facts.parts in ("simplices", "boxes"):
        return [list(outputs) for outputs in exact_hats(facts, table, x.reshape(-1))]
    cells = np.floor(x * steps).astype(np.int64) @ [steps**k for k in range(facts.features)]
    if facts.rows == "multisets":
        return [list(outputs) for outputs in outputs_at(values, cells[None], facts.cells)[0]]
    out, order = np.zeros(values.shape[1:]), np.arange(len(cells))
    if facts.rows == "sets":
        order = np.argsort(cells, kind="stable")
        if len(set(cells.tolist())) < len(cells):
            return [list(outputs) for outputs in out]
    row = int(number(cells[order], facts.cells))
    out[order] = values[
        int((table["keys"] == row).nonzero()[0][0]) if facts.rows == "sets" else row
    ]
    return [list(outputs) for outputs in out]
