"""Attention halves applied to states of all tokens, each a box [low, high] of numbers.

No head may read what moves. Then scores are numbers, and either

- one of all keys that a token sees leads by so much that all others weigh exactly 0 (by more than
  745.2 for softmax and top-k, 1 for sparsemax, 2 for entmax15, at all for hardmax), or the others
  near it have the same value: the head gives that value; or
- the half is run in float64, and what it gives is widened by what another order of summation may
  give: scores of size A, of k products, are off by (k+16)uA, weights that add up to 1 by factors
  e^(±2 that) and the 16u of exp and the division, sums of n values by n roundings.

A `Sweep` is a run of attention halves of two opposite heads that read the same t = u·z, with
queries λ(t - b): where t > b a head gives the largest t that there is, where t < b the smallest. So
they cancel but for the tokens with b_1 < t < b_2, which grow by c(max - min): a token meets one
layer at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from anyseq.nn import Stack
from anyseq.patterns import Full
from anyseq.positions import (
    URPE,
    NoPosition,
    Place,
    Position,
    RelativeBias,
    Shaw,
    T5Bias,
)
from anyseq.probability import Entmax15, Hardmax, Softmax, Sparsemax, TopK
from anyseq.verify.floats import UNIT, exact
from anyseq.verify.forms import LEAD, led
from anyseq.verify.verdict import Disagreement, Weights

_LEADS = {Softmax: LEAD, TopK: LEAD, Sparsemax: 1.0, Entmax15: 2.0, Hardmax: 0.0}
_NAMES = ("q_weight", "q_bias", "k_weight", "v_weight", "o_weight")

State = tuple[np.ndarray, np.ndarray]
"""low and high, both (sequences, positions, width)."""


@dataclass(eq=False)
class Attend:
    """One attention half."""

    network: Stack
    net: Weights
    row: int
    layer: int

    @property
    def cost(self) -> int:
        return sum(int(self.net[name][self.row].size) for name in _NAMES)

    @property
    def writes(self) -> np.ndarray:
        """(width,) the features that it adds to."""
        return np.asarray(self.net["o_weight"][self.row].any(1))

    def __call__(self, low: np.ndarray, high: np.ndarray) -> State:
        moving = (low != high).any((0, 1))
        parts = {name: self.net[name][self.row] for name in _NAMES}
        if any(parts[name][:, moving].any() for name in ("q_weight", "k_weight", "v_weight")):
            raise Disagreement("attention reads a number that moves")
        led = self._led(low, parts)
        if led is not None:
            return low + led, (high + led if moving.any() else low + led)
        with torch.no_grad():
            state = torch.from_numpy(np.ascontiguousarray(low))
            more = self.network.attend(state, self.layer).numpy()
        off = self._off(low, parts) + 2 * UNIT * np.abs(more) * (more != 0)
        slack = (off + 2 * UNIT * (np.abs(low) + np.abs(high))) * self.writes
        return low + more - slack, high + more + slack

    def _led(self, state: np.ndarray, parts: Weights) -> np.ndarray | None:
        """What is added where some key leads; None if that is not so, or cannot be read."""
        lead, shape = _LEADS.get(type(self.network.design.probability)), self.network.shape
        used = [
            head
            for head in range(shape.heads)
            if parts["o_weight"][:, head * shape.head_dim : (head + 1) * shape.head_dim].any()
        ]
        if lead is None or not _only_scores(self.network, self.net, self.row, used):
            return None
        try:
            query = exact(state, parts["q_weight"], parts["q_bias"])
            key, value = exact(state, parts["k_weight"]), exact(state, parts["v_weight"])
        except Disagreement:
            return None
        mixed = np.zeros_like(value)
        for head in used:
            part = slice(head * shape.head_dim, (head + 1) * shape.head_dim)
            score = np.einsum("sqi,ski->sqk", query[..., part], key[..., part])
            size = np.einsum("sqi,ski->sqk", np.abs(query[..., part]), np.abs(key[..., part]))
            rounds = UNIT * (1 + shape.head_dim) * size.max(2, keepdims=True)
            place = (self.row, self.layer, head)
            found = led(self.network, self.net, place, score, value[..., part], lead, rounds)
            if found is None:
                return None
            mixed[..., part] = found
        return exact(mixed, parts["o_weight"])

    def _off(self, state: np.ndarray, parts: Weights) -> np.ndarray:
        """(width,) how far the half may be from its exact value, in any order of summation."""
        count, size = state.shape[1] + 1, self.network.shape.head_dim
        sizes = np.abs(state).max((0, 1))
        query = np.abs(parts["q_weight"]) @ sizes + np.abs(parts["q_bias"])
        key, value = (np.abs(parts[f"{name}_weight"]) @ sizes for name in "kv")
        tables = [
            float(np.abs(part[self.row]).max(initial=0.0))
            for name, part in self.net.items()
            if name.startswith("inside_") or name == "sink"
        ]
        gains = [1.0, *tables, float(np.abs(self.net.get("gain", np.zeros(1))).max())]
        score = size * float((query * key).max()) + sum(tables) * (1 + float(query.max()))
        factor = 2 * (size + 16) * score + 2 * count + 32
        products = len(sizes) + self.network.shape.heads * size
        return np.asarray(
            UNIT * (factor + products) * max(gains) * (np.abs(parts["o_weight"]) @ value)
        )


def _only_scores(network: Stack, net: Weights, row: int, used: list[int]) -> bool:
    """Whether nothing acts inside attention: no positions, or biases of 0 and gains of 1."""
    position = network.design.position
    if isinstance(position, URPE):
        if (net.get("gain", np.ones((len(used) + 9, 1)))[used] != 1).any():
            return False
        position = position.base
    tables = {name: part[row] for name, part in net.items() if name.startswith("inside_")}
    own = tables.pop("inside_own_gain_table", None)
    if own is not None and (own[used] != 1).any():
        return False
    silent = isinstance(position, RelativeBias | T5Bias | Shaw)
    return (_outside(position) or silent) and not any(part.any() for part in tables.values())


@dataclass(eq=False)
class Sweep:
    """A run: u, λ, c, and b_1, b_2 of every layer (layers, 2), upwards; all t are multiples of a
    unit."""

    direction: np.ndarray
    sharp: float
    shift: float
    ends: np.ndarray
    unit: float
    cost: int = 100

    @property
    def writes(self) -> np.ndarray:
        """(width,) the features that it adds to: the first."""
        return np.asarray(np.arange(len(self.direction)) == 0)

    @classmethod
    def of(cls, network: Stack, net: Weights, rows: list[int], unit: float) -> Sweep | None:
        """None if these rows are no run, or attention is not dense."""
        design, shape = network.design, network.shape
        dense = design.cycle == (Full(),) and isinstance(design.probability, Softmax)
        if not dense or not _outside(design.position) or shape.sinks:
            return None
        query, bias, key, value, out = (net[name][rows] for name in _NAMES)
        direction, sharp, shift = key[0, 0], float(query[0, 0, 0]), float(out[0, 0, 0])
        fits = (shape.heads, shape.head_dim, float(direction[0])) == (2, 1, 1.0) and sharp > 0
        fits = fits and (key == direction).all() and (value == direction).all()
        fits = fits and (query == sharp * direction).all() and np.frexp(sharp)[0] == 0.5
        fits = fits and (out[:, 0] == [shift, -shift]).all() and not out[:, 1:].any()
        ends = -bias / sharp if fits else bias
        if not fits or (ends[:, 0] > ends[:, 1]).any() or (ends[1:, 0] < ends[:-1, 1]).any():
            return None
        return cls(direction, sharp, shift, ends, unit)

    def __call__(self, low: np.ndarray, high: np.ndarray) -> State:
        if (low != high).any((0, 1)).any():
            raise Disagreement("attention reads a number that moves")
        grown = np.zeros(low.shape[:2])
        at, rows = np.zeros(len(low), dtype=np.int64), np.arange(len(low))
        start = exact(low, self.direction[None])[..., 0]
        while len(rows):
            t = start[rows] + grown[rows]
            self._check(t)
            layer = np.maximum(at[rows, None], np.searchsorted(self.ends[:, 1], t, side="right"))
            inside = layer.clip(max=len(self.ends) - 1)
            meets = (layer < len(self.ends)) & (self.ends[inside, 0] < t)
            own = np.where(meets, layer, len(self.ends))
            first = own.min(1)
            some = first < len(self.ends)
            rows, first, t, own = rows[some], first[some], t[some], own[some]
            more = self.shift * (t.max(1) - t.min(1))
            grown[rows] += np.where(own == first[:, None], more[:, None], 0.0)
            at[rows] = first + 1
        low = low.copy()
        low[..., 0] += grown
        self._check(start + grown)
        return low, low

    def _check(self, t: np.ndarray) -> None:
        """All t are exact, and so far from all b that one key leads by enough: a score rounds once,
        by u|t|/unit of the lead."""
        most = float(np.abs(t).max(initial=0.0)) / self.unit
        whole = (t / self.unit % 1 == 0).all() and self.shift % 1 == 0
        if not whole or most * max(1.0, abs(self.shift)) >= 2.0**53:
            raise Disagreement("shifts: numbers too large to be computed, or no whole ones")
        lead = self.sharp * self.unit**2 / 2 * (1 - 2 * UNIT * most)
        if (2 * self.ends / self.unit % 2 != 1).any() or not lead >= LEAD:
            raise Disagreement(
                "shifts: softmax is not sharp enough, or decides between two numbers"
            )


def _outside(position: Position) -> bool:
    """Whether it does not act inside attention."""
    return isinstance(position, NoPosition) or Place.INPUT in position.acts_in
