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
from itertools import groupby

import numpy as np

from anyseq.verify.verdict import Disagreement, Weights


@dataclass(frozen=True, eq=False)
class Windows:
    """t is feature `at`; low, high (K,), ascending; values (K, width). nodes: features of s_k."""

    at: int
    gate: int | None
    slope: float
    low: np.ndarray
    high: np.ndarray
    values: np.ndarray
    nodes: np.ndarray

    @property
    def ramp(self) -> float:
        """The width of a ramp, 1/slope."""
        return 1 / self.slope

    @property
    def into(self) -> list[int]:
        """The features that values go into."""
        return [int(feature) for feature in np.nonzero(self.values.any(0))[0]]

    @property
    def apart(self) -> bool:
        """Whether no number is in two windows, ramps included."""
        return not (self.low[1:] - self.high[:-1] < 2 * self.ramp).any()

    @property
    def disjoint(self) -> bool:
        """Whether no number is in two windows; ramps may meet."""
        return bool((self.low[1:] > self.high[:-1]).all())

    def find(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """What is added for t in [low, high], and for which window; -1 if for none: the same for
        all t, none of which is on a ramp. Windows that overlap add whole numbers."""
        start, end = self.low - self.ramp, self.high + self.ramp
        start = np.where(self.low - start == self.ramp, start, np.nextafter(start, -np.inf))
        end = np.where(end - self.high == self.ramp, end, np.nextafter(end, np.inf))
        ends, highs = np.sort(end), np.sort(self.high)
        inside = np.searchsorted(self.low, low, side="right")
        past = np.searchsorted(ends, low, side="right")
        if (inside != np.searchsorted(np.sort(start), high)).any() or (
            past != np.searchsorted(highs, high)
        ).any():
            raise Disagreement("windows: a number is on a ramp, or not safely inside a window")
        if self.disjoint:
            return np.where(inside > past, inside - 1, -1)
        if (self.values % 1).any() or np.abs(self.values).sum() >= 2.0**53:
            raise Disagreement("windows overlap, and do not count")
        return np.stack([inside, past], axis=-1)

    def added(self, found: np.ndarray) -> np.ndarray:
        """(..., width), for what `find` gives."""
        if self.disjoint:
            return np.asarray(self.values[found] * (found >= 0)[..., None])
        order = np.argsort(self.high, kind="stable")
        first, last = (
            np.concatenate([0 * self.values[:1], part]).cumsum(0)
            for part in (self.values, self.values[order])
        )
        return np.asarray(first[found[..., 0]] - last[found[..., 1]])


def read_windows(net: Weights, row: int, stop: int) -> tuple[list[Windows], int]:
    """The windows that begin in feed-forward half `row`, all that are of one kind together, and
    where they end."""
    parts = []
    while row + 1 < stop and (part := _pair(net, row)) is not None:
        parts.append(part)
        row += 2
    groups = groupby(parts, lambda part: (part.at, part.gate, part.slope, part.into[:1]))
    return [_joined(list(group)) for _, group in groups], row


def _joined(parts: list[Windows]) -> Windows:
    low, high, values = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("low", "high", "values")
    )
    order, first = np.argsort(low, kind="stable"), parts[0]
    nodes = np.unique(np.concatenate([part.nodes for part in parts]))
    return Windows(first.at, first.gate, first.slope, low[order], high[order], values[order], nodes)


def _pair(net: Weights, row: int) -> Windows | None:
    """The windows of two layers; None if these are none. Units that nothing reads do not count."""
    up, bias, down = (net[name][row] for name in ("up_weight", "up_bias", "down_weight"))
    (used,) = np.nonzero(down.any(0))
    at = int(np.abs(up[used]).sum(0).argmax()) if len(used) else 0
    left, right = used[up[used, at] == -1], used[up[used, at] == 1]
    left, right = (part[np.argsort(down[:, part].argmax(0))] for part in (left, right))
    nodes, slope = down[:, left].argmax(0), float(down.max(initial=0.0))
    eye = np.eye(up.shape[1])
    if not (
        0 < len(left) == len(right) == len(np.unique(nodes)) == len(used) / 2
        and (up[left] == -eye[at]).all()
        and (up[right] == eye[at]).all()
        and all(np.array_equal(down[:, part], slope * eye[:, nodes]) for part in (left, right))
        and not net["down_bias"][row].any()
        and 2.0**-900 < slope < 2.0**900
        and np.frexp(slope)[0] == 0.5
    ):
        return None
    low, high, outer = bias[left], -bias[right], _outer(net, row + 1, nodes, eye)
    if outer is None or not (low <= high).all() or outer[1][:, at].any():
        return None
    return Windows(at, outer[0], slope, low, high, outer[1], nodes)


def _outer(
    net: Weights, row: int, nodes: np.ndarray, eye: np.ndarray
) -> tuple[int | None, np.ndarray] | None:
    """The gate and the values of the second layer."""
    up, bias, down = (net[name][row] for name in ("up_weight", "up_bias", "down_weight"))
    used, count = down.any(0), len(nodes)
    clear = used & (up[:, nodes] == 1).any(1)
    look = used & ~clear
    cleared, seen = up[clear][:, nodes].argmax(1), up[look][:, nodes].argmin(1)
    gated = up[look] + eye[nodes[seen]]
    gates = np.nonzero(gated.any(0))[0].tolist()
    values = np.zeros((count, len(eye)))
    values[seen] = down[:, look].T
    if (
        np.array_equal(np.sort(cleared), np.arange(count))
        and np.array_equal(up[clear], eye[nodes[cleared]])
        and np.array_equal(down[:, clear], -eye[:, nodes[cleared]])
        and not bias[clear].any()
        and len(np.unique(seen)) == len(seen)
        and len(gates) <= 1
        and (gated[:, gates] == 1).all()
        and (bias[look] == 1 - len(gates)).all()
        and not values[:, nodes].any()
        and not net["down_bias"][row].any()
    ):
        return (gates[0] if gates else None), values
    return None
