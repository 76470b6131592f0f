"""Layers that look one number t up in windows, read from the weights, one layer after the other.

Two layers with room for some windows add Σ_k v_k(t) values_k to some features,

    v_k(t) = ReLU(gate - s_k),    s_k = slope·ReLU(low_k - t) + slope·ReLU(t - high_k),

the gate being 1 or a feature. The first puts s_k into a feature of its own, 0 before; the second
takes it away again, s_k - ReLU(s_k) = 0. Slopes are powers of two, and 1/slope is a float, so a
rounded difference is on the right side of it: for a gate of 1, v_k is 1 to the bit where
low_k <= t <= high_k, and 0 to the bit where t is 1/slope or more outside. In between, on the
*ramps*, it is neither more than 1 nor less than 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyseq.construct.verifiers.verify_front import Weights
from anyseq.construct.verifiers.verify_terms import Disagreement

_NAMES = ("up_weight", "up_bias", "down_weight", "down_bias")
_UNIT = 2.0**-53


@dataclass(frozen=True, eq=False)
class Windows:
    """low, high (K,), ascending, values (K, V)."""

    low: np.ndarray
    high: np.ndarray
    slope: float
    values: np.ndarray

    @property
    def ramp(self) -> float:
        """The width of a ramp, 1/slope."""
        return 1 / self.slope

    def check_apart(self) -> None:
        """No number is in two windows, ramps included."""
        if (self.low[1:] - self.high[:-1] < 2 * self.ramp).any():
            raise Disagreement("two windows overlap")

    def find(self, keys: np.ndarray) -> tuple[np.ndarray, float]:
        """The window that each key is in, and how far inside all of them are at least: far enough
        that no rounding of another order of summation takes one out."""
        found = (np.searchsorted(self.low, keys, side="right") - 1).clip(min=0)
        inside = float(np.minimum(keys - self.low[found], self.high[found] - keys).min())
        if not inside >= max(self.ramp / 2, 2 * _UNIT * float(np.abs(keys).max())):
            raise Disagreement("a key is not safely inside a window")
        return found, inside


class FeedForwardReader:
    """Goes through the feed-forward halves; `row` is the next. Features from nodes_at on are those
    of windows."""

    def __init__(self, net: Weights, nodes_at: int) -> None:
        self.net, self.nodes_at, self.row = net, nodes_at, 0
        self.chunk = net["up_weight"].shape[2] - nodes_at
        if self.chunk < 1:
            raise Disagreement("no feature is left for windows")

    def blank(self) -> Weights:
        """Zeros of the shapes of one layer."""
        return {name: np.zeros(self.net[name].shape[1:]) for name in _NAMES}

    def clearing(self, first: int, count: int) -> Weights:
        """Features first, ..., first+count-1 become x - ReLU(x) + ReLU(-x) = 0."""
        layer, feature = self.blank(), np.arange(count)
        for unit, sign in ((2 * feature, 1.0), (2 * feature + 1, -1.0)):
            layer["up_weight"][unit, first + feature] = sign
            layer["down_weight"][first + feature, unit] = -sign
        return layer

    def peek(self) -> Weights:
        """The next layer."""
        return {name: self.net[name][self.row] for name in _NAMES}

    def expect(self, wanted: Weights, what: str) -> None:
        """The next layer is this one."""
        found = self.peek()
        for name in _NAMES:
            if not np.array_equal(found[name], wanted[name]):
                raise Disagreement(f"{what}: {name} of feed-forward layer {self.row}")
        self.row += 1

    def windows(
        self,
        count: int,
        what: str,
        *,
        at: int,
        into: int,
        outputs: int = 1,
        gate: int | None = None,
    ) -> Windows:
        """The windows of t = feature `at`, with values for features into, into+1, ..."""
        if count < 1:
            raise Disagreement(f"{what}: no windows")
        parts = [
            self._some(min(self.chunk, count - start), what, at, slice(into, into + outputs), gate)
            for start in range(0, count, self.chunk)
        ]
        low, high, values = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("low", "high", "values")
        )
        slopes, order = {part.slope for part in parts}, np.argsort(low, kind="stable")
        slope = slopes.pop()
        if slopes or not 0 < slope < np.inf or np.log2(slope) % 1 or (low > high).any():
            raise Disagreement(f"{what}: no windows with ramps of one width that is a power of two")
        if not all(np.isfinite(part).all() for part in (low, high, values)):
            raise Disagreement(f"{what}: windows that are not finite")
        return Windows(low[order], high[order], slope, values[order])

    def _some(self, count: int, what: str, at: int, into: slice, gate: int | None) -> Windows:
        """As many as two layers hold."""
        number, inner, layer = np.arange(count), self.peek(), self.blank()
        left, right, node = 2 * number, 2 * number + 1, self.nodes_at + number
        low, high = inner["up_bias"][left], -inner["up_bias"][right]
        slope = float(inner["down_weight"][self.nodes_at, 0])
        for unit, sign, corner in ((left, -1.0, low), (right, 1.0, -high)):
            layer["up_weight"][unit, at] = sign
            layer["up_bias"][unit] = corner
            layer["down_weight"][node, unit] = slope
        self.expect(layer, what)
        outer, layer = self.peek(), self.blank()
        values = outer["down_weight"][into, :count].T.copy()
        layer["up_weight"][number, node] = -1.0
        if gate is None:
            layer["up_bias"][number] = 1.0
        else:
            layer["up_weight"][number, gate] = 1.0
        layer["down_weight"][into, :count] = values.T
        layer["up_weight"][self.chunk + number, node] = 1.0
        layer["down_weight"][node, self.chunk + number] = -1.0
        self.expect(layer, what)
        return Windows(low, high, slope, values)
