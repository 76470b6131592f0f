"""Some inputs through the network in ball arithmetic (python-flint), against the table.

Balls of 300 bits hold the exact output of the network at an input, whatever float64 does. It must
be what the table says at that input, in exact arithmetic too, to within the rounding claimed. (The
rescale layer of "yun" rounds ids, as its value map knows; without rounding it is off by that.) A
function that is more than a table look-up evaluates itself, in fractions or in balls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import torch

from anyseq.construct.verifiers.claim import Claim
from anyseq.construct.verifiers.verification import fresh
from anyseq.construct.verifiers.verify_hats import exact_hats
from anyseq.construct.verifiers.verify_multisets import outputs_at
from anyseq.construct.verifiers.verify_terms import Disagreement, Skipped, by_multisets

_BITS = 300
_WORK = 400_000  # weights that are not 0, times tokens, for all inputs together
_MOST = 4 * _WORK  # for one input
_INPUTS = 8
_LEAD = 746  # exp(-745.2) is 0 in float64

Ball = Any  # flint.arb, which has no types
Token = dict[int, Ball]  # features that are not 0


class Mean(Protocol):
    """What a network computes that blends values of the table."""

    @property
    def hard(self) -> np.ndarray:
        """Entries of x where it is not one of those values."""

    def exact(self, x: np.ndarray) -> Iterable[list[Any]]:
        """What it is at x (tokens, features), in fractions or balls: (tokens, out_features)."""


def random_inputs(shape: tuple[int, ...], mean: Mean | None) -> np.ndarray:
    """(inputs, tokens, features); of every other input half of the entries are hard."""
    rng = fresh()
    x = rng.random(shape)
    if mean is not None:
        hard = rng.choice(mean.hard, shape)
        x[1::2] = np.where(rng.random(shape) < 0.5, hard, x)[1::2]
    return x


def balls_agree(
    claim: Claim,
    net: dict[str, np.ndarray],
    table: Mapping[str, torch.Tensor],
    measured: Mapping[str, float],
    size: int,
    mean: Mean | None = None,
) -> str:
    """Inputs in random cells. measured: "rounding" of one entry, "rescale" of the ids; size: of a
    head; mean: what the table says at an input, unless it is looked up."""
    try:
        from flint import ctx
    except ImportError:
        raise Skipped("python-flint is not installed: pip install 'anyseq[flint]'") from None
    used = claim.tokens * sum(int(np.count_nonzero(tensor)) for tensor in net.values())
    if used > _MOST:
        raise Skipped(f"{used:,} products a run, more than the {_MOST:,} that are done")
    count = min(_INPUTS, max(1, _WORK // used))
    inputs = random_inputs((count, claim.tokens, claim.features), mean)
    worst, allowed = 0.0, measured["rounding"] + measured.get("rescale", 0.0)
    before, ctx.prec = ctx.prec, _BITS
    try:
        layers = [_sparse(net, *halves) for halves in net["halves"].tolist()]
        memory = _Memory(claim, net) if "memory_key" in net else None
        for x in inputs:
            found = _run(net, layers, x, size, memory)
            wanted = _look_up(claim, table, x) if mean is None else mean.exact(x)
            for token, outputs in zip(found, wanted, strict=True):
                for k, value in enumerate(outputs):
                    gap = abs(token.get(k, _ball(0.0)) - _ball(value))
                    if not gap <= allowed:
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
        used = () if shift is None else np.nonzero(shift)[0].tolist()
        self.shift = {row: float(shift[row]) for row in used} if shift is not None else {}

    def __call__(self, x: Token) -> Token:
        out = {row: _ball(value) for row, value in self.shift.items()}
        for column, rows in self.columns.items():
            if column in x:
                for row, value in rows:
                    term = x[column] * value
                    out[row] = out[row] + term if row in out else term
        return out


class _Memory:
    """What the last attention half adds to a token, if it attends to a memory."""

    def __init__(self, claim: Claim, net: dict[str, np.ndarray]) -> None:
        key, value = net["memory_key"], net["memory_value"]
        before = max(claim.features, claim.out_features) + claim.tokens
        self.score = _Matrix(np.pad(key[:, :-1], [(0, 0), (before, 0)]), key[:, -1])
        self.value = _Matrix(np.pad(value.T, [(before + key.shape[1] - 1, 0), (0, 0)]))
        self.centres = range(len(key))

    def __call__(self, token: Token) -> Token:
        scores = self.score(token)
        weights = _softmax([scores.get(centre, _ball(0.0)) for centre in self.centres])
        return self.value(dict(enumerate(weights)))


@dataclass(frozen=True)
class _Layer:
    """q, k, v, o and up, down; None where it has no such half. recalls: its attention half attends
    to the memory.

    cleared: features x from which down takes ReLU(x) away. x - ReLU(x) is min(x, 0); as a
    difference of balls it would be twice as wide as x, in every layer that clears.
    """

    attention: tuple[_Matrix, _Matrix, _Matrix, _Matrix] | None
    recalls: bool
    feedforward: tuple[_Matrix, _Matrix] | None
    cleared: tuple[int, ...]


def _sparse(net: dict[str, np.ndarray], attention: int, feedforward: int) -> _Layer:
    heads = halves = None
    cleared: dict[int, int] = {}
    recalls = attention >= len(net["q_weight"])
    if attention >= 0 and not recalls:
        q = _Matrix(net["q_weight"][attention], net["q_bias"][attention])
        k, v, o = (_Matrix(net[f"{name}_weight"][attention]) for name in "kvo")
        heads = (q, k, v, o)
    if feedforward >= 0:
        up, bias = net["up_weight"][feedforward], net["up_bias"][feedforward]
        down = net["down_weight"][feedforward].copy()
        (copies,) = np.nonzero((np.count_nonzero(up, axis=1) == 1) & (bias == 0))
        for unit in copies.tolist():
            feature = int(np.nonzero(up[unit])[0][0])
            if up[unit, feature] == 1 and down[feature, unit] == -1 and feature not in cleared:
                cleared[feature], down[feature, unit] = unit, 0.0
        halves = (_Matrix(up, bias), _Matrix(down, net["down_bias"][feedforward]))
    return _Layer(heads, recalls, halves, tuple(cleared))


def _run(
    net: dict[str, np.ndarray],
    layers: list[_Layer],
    x: np.ndarray,
    size: int,
    memory: _Memory | None,
) -> list[Token]:
    state: list[Token] = [{k: _ball(v) for k, v in enumerate(token.tolist())} for token in x]
    for token in state:
        _add(token, _vector(net.get("constant", np.zeros(1))))
    if "bos" in net:
        state.insert(0, _vector(net["bos"]))
    for token, vector in zip(state, net.get("position", np.zeros((len(state), 1))), strict=True):
        _add(token, _vector(vector))
    heads = net["q_bias"].shape[1] // size
    for layer in layers:
        if layer.attention is not None:
            q, k, v, o = layer.attention
            mixed = _attend([q(t) for t in state], [k(t) for t in state], [v(t) for t in state],
                            heads, size)  # fmt: skip
            for token, own in zip(state, mixed, strict=True):
                _add(token, o(own))
        if layer.recalls and memory is not None:
            for token in state:
                _add(token, memory(token))
        if layer.feedforward is not None:
            up, down = layer.feedforward
            for token in state:
                more = down(_relu(up(token)))
                for feature in layer.cleared:
                    left = _relu({feature: -token.pop(feature, _ball(0.0))})
                    token.update({feature: -value for feature, value in left.items()})
                _add(token, more)
    return state[len(state) - len(x) :]


def _vector(entries: np.ndarray) -> Token:
    return {int(k): _ball(entries[k]) for k in np.nonzero(entries)[0]}


def _attend(
    queries: list[Token], keys: list[Token], values: list[Token], heads: int, size: int
) -> list[Token]:
    """Softmax; where a token leads by so much that all others vanish in float64, it alone
    counts."""
    out: list[Token] = []
    for query in queries:
        own: Token = {}
        for head in range(heads):
            inside = range(head * size, (head + 1) * size)
            scores = [
                sum((query[i] * key[i] for i in inside if i in query and i in key), _ball(0.0))
                for key in keys
            ]
            for weight, value in zip(_softmax(scores), values, strict=True):
                if weight != 0:
                    _add(own, {i: weight * value[i] for i in inside if i in value})
        out.append(own)
    return out


def _softmax(scores: list[Ball]) -> list[Ball]:
    """exp(s_j - s_m) / Σ, s_m the largest."""
    winner = max(range(len(scores)), key=lambda place: float(scores[place].mid()))
    top = scores[winner]
    if all(top - other > _LEAD for place, other in enumerate(scores) if place != winner):
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


def _look_up(
    claim: Claim, table: Mapping[str, torch.Tensor], x: np.ndarray
) -> Iterable[list[float | Fraction]]:
    """The table at x, exactly."""
    values = table["values"]
    if "boxes" in table:
        return [list(o) for o in exact_hats(claim, table, list(map(Fraction, x.reshape(-1))))]
    scaled = [Fraction(entry) * claim.steps for entry in x.reshape(-1).tolist()]
    corner = [int(entry) for entry in scaled]
    if claim.method == "gather":
        order = sorted(range(len(scaled)), key=lambda axis: corner[axis] - scaled[axis])
        marks = [Fraction(1), *(scaled[axis] - corner[axis] for axis in order), Fraction(0)]
        exact = np.full(values.shape[1:], Fraction(0), dtype=object)
        for place, axis in enumerate([*order, None]):
            row = 0
            for coordinate in corner:
                row = row * (claim.steps + 1) + coordinate
            node = np.vectorize(Fraction, otypes=[object])(values[row].numpy())
            exact = exact + (marks[place] - marks[place + 1]) * node
            if axis is not None:
                corner[axis] += 1
        return [list(outputs) for outputs in exact]
    cells = np.array(corner).reshape(x.shape) @ [claim.steps**k for k in range(claim.features)]
    if by_multisets(claim) and claim.method == "boltzmann":
        found = outputs_at(values.numpy(), cells[None], claim.steps**claim.features)
        return [list(outputs) for outputs in found[0]]
    ordered = claim.positions or claim.method == "boltzmann"
    order_of = np.arange(len(cells)) if ordered else np.argsort(cells, kind="stable")
    number = 0
    for cell in cells[order_of].tolist():
        number = number * claim.steps**claim.features + cell
    out = np.zeros(values.shape[1:])
    if ordered or len(set(cells.tolist())) == len(cells):
        row = number if ordered else int((table["keys"] == number).nonzero()[0])
        out[order_of] = values[row].numpy()
    return [list(outputs) for outputs in out]
