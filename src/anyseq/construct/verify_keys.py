"""Windows, read from feed-forward layers: at which number they look, where, and what they add.

The layers come in pairs. The first puts into node k, a feature that is 0,

    s_k = slope (ReLU(low_k - t) + ReLU(t - high_k)),    t the feature they look at,

the second adds ReLU(1 - s_k) values_k, and s_k - ReLU(s_k) = 0 to the node. With low_k <= high_k
and slope a power of two, float64 makes this *exactly* values_k on [low_k, high_k], where both ReLUs
are off, and *exactly* 0 from 1/slope on outside: 1/slope is a float, so no difference that reaches
it is rounded to less. In between, on the *ramps*, it is never more than |values_k|.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyseq.construct.verify_cells import Weights
from anyseq.construct.verify_terms import Disagreement

_UNIT = 2.0**-53


@dataclass(frozen=True, eq=False)
class Windows:
    """at: the feature they look at; nodes: the first of their own; ramp: 1/slope.

    low, high: (K,); values: (K, width).
    """

    at: int
    nodes: int
    ramp: float
    low: np.ndarray
    high: np.ndarray
    values: np.ndarray

    def check_apart(self) -> None:
        """No number is in two windows, ramps included."""
        order = np.argsort(self.low, kind="stable")
        if (self.low[order][1:] - self.high[order][:-1] < 2 * self.ramp).any():
            raise Disagreement("two windows overlap")

    def find(self, keys: np.ndarray) -> tuple[np.ndarray, float]:
        """The window that each key is in, and how far inside all of them are at least: far enough
        that no rounding of another order of summation takes one out."""
        order = np.argsort(self.low, kind="stable")
        place = np.searchsorted(self.low[order], keys, side="right") - 1
        found = order[place.clip(min=0)]
        inside = float(np.minimum(keys - self.low[found], self.high[found] - keys).min())
        if not inside >= max(self.ramp / 2, 2 * _UNIT * float(np.abs(keys).max())):
            raise Disagreement("a key is not safely inside a window")
        return found, inside


def read_windows(net: Weights, rows: range) -> Windows:
    """The windows that the feed-forward halves `rows` make; nothing else may be in them."""
    if not rows or len(rows) % 2:
        raise Disagreement(f"windows: {len(rows)} layers, expected pairs")
    (looks,) = np.nonzero(net["up_weight"][rows[0], 0])
    (writes,) = np.nonzero(net["down_weight"][rows[0], :, 0])
    if len(looks) != 1 or len(writes) != 1:
        raise Disagreement("windows: they do not look at one number")
    at, nodes = int(looks[0]), int(writes[0])
    slope = float(net["down_weight"][rows[0], nodes, 0])
    if not 0 < slope < np.inf or np.log2(slope) % 1 or at >= nodes:
        raise Disagreement("windows: their slope is no power of two")
    pairs = [_pair(net, row, at, nodes, slope) for row in rows[::2]]
    low, high, values = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    if not (np.isfinite([low, high]).all() and np.isfinite(values).all() and (low <= high).all()):
        raise Disagreement("windows: one ends before it begins, or is not finite")
    if values[:, at].any():
        raise Disagreement("windows: they change the number that they look at")
    return Windows(at, nodes, 1 / slope, low, high, values)


def _pair(
    net: Weights, row: int, at: int, nodes: int, slope: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(low, high, values) of the windows of two layers."""
    hidden, width = net["up_weight"].shape[1:]
    chunk = width - nodes
    bias, read = net["up_bias"][row], net["down_weight"][row + 1]
    slot = np.arange(np.count_nonzero(net["down_weight"][row]) // 2)
    if len(slot) > chunk or 2 * chunk > hidden:
        raise Disagreement(f"windows: layer {row} has more of them than nodes")
    inner, outer = _nothing(hidden, width), _nothing(hidden, width)
    inner["up_weight"][2 * slot, at] = -1.0
    inner["up_weight"][2 * slot + 1, at] = 1.0
    inner["up_bias"][: 2 * len(slot)] = bias[: 2 * len(slot)]
    inner["down_weight"][nodes + slot, 2 * slot] = slope
    inner["down_weight"][nodes + slot, 2 * slot + 1] = slope
    outer["up_weight"][slot, nodes + slot] = -1.0
    outer["up_bias"][slot] = 1.0
    outer["down_weight"][:nodes, slot] = read[:nodes, slot]
    outer["up_weight"][chunk + slot, nodes + slot] = 1.0
    outer["down_weight"][nodes + slot, chunk + slot] = -1.0
    for place, expected in ((row, inner), (row + 1, outer)):
        for name, tensor in expected.items():
            if not np.array_equal(net[name][place], tensor):
                raise Disagreement(f"windows: {name} of layer {place} is not that of windows")
    values = np.zeros((len(slot), width))
    values[:, :nodes] = read[:nodes, slot].T
    return bias[2 * slot], -bias[2 * slot + 1], values


def _nothing(hidden: int, width: int) -> Weights:
    return {
        "up_weight": np.zeros((hidden, width)),
        "up_bias": np.zeros(hidden),
        "down_weight": np.zeros((width, hidden)),
        "down_bias": np.zeros(width),
    }
