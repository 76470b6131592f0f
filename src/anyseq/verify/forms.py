"""Tokens as affine functions of x on the whole cube, carried from layer to layer.

A feature of a token is c + s·x. What a layer makes of such forms is one again where

1. the scores of an attention head do not depend on x, and one of all keys that a token sees leads
   by more than 745.2: all others weigh exactly 0 by softmax and top-k, and also by hardmax,
   sparsemax and entmax, which need less. So the head moves the value of that key;
2. every unit of a feed-forward half that is used keeps its sign: its form does, at the corners of
   the cube where it is largest and smallest.

Coefficients are computed without rounding. What float64 computes at some x is off by `off` at most:
nothing where one number is moved, times a power of two, or where constants are added; elsewhere k+1
roundings of all that is summed. A ReLU does not enlarge it.

What remains of t when a unit takes t - a off it is a, to the bit: t - a is exact for a <= t <= 2a
(Sterbenz) and for a = 0, and then so is t - (t - a).

Positions that act inside attention are not read: there the layers are run, at some inputs, and what
is seen is a sample of a form.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, product

import numpy as np
import torch

from anyseq.nn import Stack
from anyseq.positions import Sinusoidal
from anyseq.verify.facts import Facts
from anyseq.verify.floats import UNIT, exact, not_small_whole
from anyseq.verify.verdict import Disagreement, Weights, fresh

LEAD = 746.0  # exp(-745.2) is 0 in float64
NEAR = 2.0**-20  # what is further from affine is not
_SAMPLED = 256  # inputs of a sample, besides corners of the cube


@dataclass(frozen=True)
class Forms:
    """form: (positions, features, 1+D), the constant first; off: (positions, features)."""

    form: np.ndarray
    off: np.ndarray

    @classmethod
    def entering(cls, facts: Facts, network: Stack, net: Weights) -> Forms:
        """x, with all that is added to it before the first layer."""
        bos, (tokens, features) = int(network.shape.bos), (facts.tokens, facts.features)
        form = np.zeros((bos + tokens, network.shape.width, 1 + facts.axes))
        token, entry = np.divmod(np.arange(facts.axes), features)
        form[bos + token, entry, 1 + np.arange(facts.axes)] = 1.0
        form[bos:, :, 0] += net.get("constant", np.zeros(1))
        form[:bos, :, 0] += net.get("bos", np.zeros(1))
        form[..., 0] += net.get("position", np.zeros(1))
        added = (form[..., 0] != 0) & form[..., 1:].any(2)
        return cls(form, UNIT * (1 + np.abs(form[..., 0])) * added)

    @property
    def moves(self) -> np.ndarray:
        """(positions, features): what is not the same number for all x."""
        return np.asarray(self.form[..., 1:].any(2) | (self.off > 0))

    @property
    def low(self) -> np.ndarray:
        return np.asarray(self.form[..., 0] + self.form[..., 1:].clip(max=0).sum(2))

    @property
    def high(self) -> np.ndarray:
        return np.asarray(self.form[..., 0] + self.form[..., 1:].clip(min=0).sum(2))

    @property
    def _size(self) -> np.ndarray:
        return np.asarray(np.maximum(np.abs(self.low), np.abs(self.high)) + self.off)

    def at(self, x: np.ndarray) -> np.ndarray:
        """(inputs, positions, features) at x (inputs, D), exactly."""
        count, width, _ = self.form.shape
        flat = self.form.reshape(count * width, -1)
        return exact(x, flat[:, 1:], flat[:, 0]).reshape(len(x), count, width)

    def times(self, weight: np.ndarray, shift: np.ndarray | None = None) -> Forms:
        """W z + b."""
        shift = np.zeros(len(weight)) if shift is None else shift
        form = exact(self.form.swapaxes(1, 2), weight).swapaxes(1, 2)
        constant = exact(self.form[..., 0], weight, shift)
        form = np.concatenate([constant[..., None], form[..., 1:]], axis=2)
        used = (self.form.any(2) | (self.off > 0)).astype(float)
        terms = used @ (weight != 0).T
        added = self._size @ np.abs(weight).T + np.abs(shift)
        whole = (np.frexp(weight)[0] % 0.5 == 0).all(1)
        alone = (terms <= 1) & whole & (shift == 0)
        moves = self.moves.astype(float) @ (weight != 0).T > 0
        off = self.off @ np.abs(weight).T + UNIT * (terms + 1) * added * (moves & ~alone)
        return Forms(form, off)

    def plus(self, more: Forms) -> Forms:
        """Nothing rounds where one of the two is 0, or both are constants."""
        form = exact(np.stack([self.form, more.form], axis=-1), np.ones((1, 2)))[..., 0]
        nothing = ~self.form.any(2) & ~self.moves | ~more.form.any(2) & ~more.moves
        rounds = UNIT * (self._size + more._size) * ~nothing * (self.moves | more.moves)
        return Forms(form, self.off + more.off + rounds)

    def attended(self, network: Stack, net: Weights, row: int, layer: int) -> Forms:
        """After the attention half of a layer."""
        count, size = len(self.form), network.shape.head_dim
        query = self.times(net["q_weight"][row], net["q_bias"][row])
        key, value = self.times(net["k_weight"][row]), self.times(net["v_weight"][row])
        held = np.concatenate([value.form, value.off[..., None]], axis=2)
        mixed = np.zeros_like(held)
        for head in range(network.shape.heads):
            part = slice(head * size, (head + 1) * size)
            if not (held[:, part].any() and net["o_weight"][row][:, part].any()):
                continue  # it adds 0, whatever its weights
            if query.moves[:, part].any() or key.moves[:, part].any():
                raise Disagreement(f"attention in layer {layer}: its scores depend on the input")
            score = exact(query.form[:, part, 0], key.form[:, part, 0])
            values = held[:, part].reshape(count, -1)
            found = led(network, net, (row, layer, head), score, values, LEAD)
            if found is None:
                raise Disagreement(f"attention in layer {layer}: no token leads by enough")
            mixed[:, part] = found.reshape(count, size, -1)
        return self.plus(Forms(mixed[..., :-1], mixed[..., -1]).times(net["o_weight"][row]))

    def fed(self, net: Weights, row: int) -> Forms | None:
        """After a feed-forward half; None if some unit does not keep its sign."""
        used = net["down_weight"][row].any(0)
        up, shift = net["up_weight"][row][used], net["up_bias"][row][used]
        down = net["down_weight"][row][:, used]
        pre = self.times(up, shift)
        on = (pre.low >= 0) & (pre.high > 0)
        if not (on | (pre.high <= 0)).all():
            return None
        seen = np.where(on, pre.off, (pre.off + pre.high).clip(min=0))
        after = self.plus(Forms(pre.form * on[..., None], seen).times(down, net["down_bias"][row]))
        for unit, feature, a in remainders(up, shift, down):
            others = (down[feature] != 0) & (np.arange(len(up)) != unit)
            low, high = (self.low - self.off)[:, feature], (self.high + self.off)[:, feature]
            takes = on[:, unit] & (low >= a) & ((high <= 2 * a) | (a == 0))
            takes &= ~((on | (seen > 0)) & others).any(1)
            after.off[takes & (net["down_bias"][row][feature] == 0), feature] = 0.0
        return after


def led(
    network: Stack,
    net: Weights,
    at: tuple[int, int, int],
    score: np.ndarray,
    held: np.ndarray,
    lead: float,
    rounds: np.ndarray | float = 0.0,
) -> np.ndarray | None:
    """What a head gives, with scores (..., queries, keys), off by `rounds`, and values (..., keys,
    numbers), if of all keys that a query sees one leads, or those near it have the same value; the
    sink, or nobody to be seen, gives 0. at: its row, layer and number."""
    row, layer, head = at
    cycle = network.design.cycle
    masks = [part.mask(score.shape[-1]).numpy() for part in cycle[layer % len(cycle)].heads()]
    score = np.where(masks[head % len(masks)], score, -np.inf)
    if "sink" in net:
        sink = np.full((*score.shape[:-1], 1), net["sink"][row, head])
        score = np.concatenate([score, sink], axis=-1)
        held = np.concatenate([held, 0 * held[..., :1, :]], axis=-2)
    top = score.max(-1, keepdims=True)
    winner = np.take_along_axis(held, score.argmax(-1)[..., None], axis=-2)
    near = (score >= top - lead - rounds) & (top > -np.inf)
    other = (held[..., None, :, :] != winner[..., :, None, :]).any(-1)
    return None if (near & other).any() else np.asarray(winner * (top > -np.inf))


def remainders(up: np.ndarray, shift: np.ndarray, down: np.ndarray) -> list[tuple[int, int, float]]:
    """Units that take t - a off one feature t that they read alone, and a >= 0."""
    (alone,) = np.nonzero(((up != 0).sum(1) == 1) & ((down != 0).sum(0) == 1) & (shift <= 0))
    feature = up[alone].argmax(1)
    right = (up[alone, feature] == 1) & (down[feature, alone] == -1)
    return [
        (int(j), int(f), -float(shift[j]))
        for j, f in zip(alone[right], feature[right], strict=True)
    ]


@dataclass(frozen=True)
class Front:
    """The tokens, BOS left out, after `row` feed-forward halves, and all attention. text: what was
    found."""

    row: int
    tokens: Forms
    text: str


def front(facts: Facts, network: Stack, net: Weights) -> Front:
    """Through all attention, and on to where all halves but the last read by whole numbers, while
    tokens are affine on the cube."""
    halves, shape, bos = net["halves"], network.shape, int(network.shape.bos)
    tokens = Forms.entering(facts, network, net)
    last = int(np.nonzero(halves[:, 0] >= 0)[0].max())
    row = int((halves[:last, 1] >= 0).sum())
    reads = np.concatenate([net["up_weight"], net["up_bias"][..., None]], axis=2)[:-1]
    until = max(row, 1 + int(np.nonzero(not_small_whole(reads))[0].max(initial=-1)))
    inside = shape.inside or shape.gains or isinstance(network.design.position, Sinusoidal)
    if inside or not (shape.positions or len(tokens.form) == 1):
        tokens, text = sampled(facts, network, shape.attention_layers + until)
        return Front(until, Forms(tokens.form[bos:], tokens.off[bos:]), f"{text} are affine in x")
    for layer, (mixer, feedforward) in enumerate(halves.tolist()):
        if mixer >= 0:
            tokens = tokens.attended(network, net, mixer, layer)
        if 0 <= feedforward < until:
            more = tokens.fed(net, feedforward)
            if more is None:
                raise Disagreement(f"feed-forward layer {feedforward}: a unit changes sign")
            tokens = more
    text = (
        f"after {until + len(net['q_bias'])} halves tokens are affine in x (read from the weights)"
    )
    return Front(until, Forms(tokens.form[bos:], tokens.off[bos:]), text)


def sampled(facts: Facts, network: Stack, halves: int) -> tuple[Forms, str]:
    """After some halves; and what was seen.

    Coefficients as close to multiples of 2^-20 as rounding leaves them are those. `off`: where it
    was not exactly so, as much as was seen, and four roundings at least."""
    axes, rng = facts.axes, fresh()
    cube = np.array(list(product((0.0, 1.0), repeat=min(axes, 8)))[:_SAMPLED])
    cube = np.pad(cube, [(0, 0), (0, axes - cube.shape[1])])
    corners = np.concatenate([np.zeros((1, axes)), np.eye(axes)])
    grid = rng.integers(0, facts.steps + 1, (_SAMPLED, axes)) / facts.steps
    inputs = np.concatenate([corners, cube, grid, rng.random((_SAMPLED, axes))])
    batch = torch.from_numpy(inputs.reshape(len(inputs), facts.tokens, facts.features))
    with torch.no_grad():
        seen = next(islice(network.trace(batch), halves, None))[1].numpy()
    form = np.moveaxis(np.concatenate([seen[:1], seen[1 : axes + 1] - seen[0]]), 0, -1)
    near = np.round(form / NEAR) * NEAR
    form = np.where(np.abs(form - near) <= NEAR**2, near, form)
    apart = np.abs(seen - form[..., 0] - np.einsum("pwd,bd->bpw", form[..., 1:], inputs)).max(0)
    if not apart.max() <= NEAR:
        raise Disagreement(f"after {halves} halves tokens are not affine in x")
    text = f"SAMPLED, not proved: after {halves} halves, run at {len(inputs)} inputs, tokens"
    return Forms(form, np.where(apart > 0, np.maximum(apart, 4 * UNIT), 0.0)), text
