"""Feed-forward layers applied to states of tokens, each of which is a box [low, high] of numbers.

A token's feature is one number, or, before it is cut into cells and after a softmax that rounds,
any number of a range. It *moves*; then a layer may do two things with it only: leave it alone, or
take it away, t - (t - a) = a, which is exact for a <= t <= 2a (Sterbenz) and for a = 0.

Long runs of layers are one step. `Bumps`: every unit of a run reads the same t = u·z, the layers
are in descending order, and none begins to bend before the one after it has ended. A layer above t
is off. One below t adds c·(t - p) for some units that it has, Σ c = 0 and Σ c p = 0, which is 0 to
the bit if t and p are multiples of so large a power of two that float64 makes no error. So every
state meets one layer at a time: its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyseq.verify.floats import UNIT, common_unit, exact, units
from anyseq.verify.verdict import Disagreement, Weights
from anyseq.verify.windows import Windows, read_windows

State = tuple[np.ndarray, np.ndarray]
"""low and high, both (states, width)."""


@dataclass(eq=False)
class Plain:
    """One layer."""

    up: np.ndarray
    up_bias: np.ndarray
    down: np.ndarray
    down_bias: np.ndarray

    @classmethod
    def of(cls, net: Weights, row: int) -> Plain:
        up, bias, down, shift = (
            net[name][row] for name in ("up_weight", "up_bias", "down_weight", "down_bias")
        )
        used = down.any(0)
        return cls(up[used], bias[used], down[:, used], shift)

    @property
    def cost(self) -> int:
        return int(self.up.size + self.down.size)

    @property
    def takes(self) -> np.ndarray:
        """(units,) those that make some feature t - ReLU(t) + ReLU(-t) = 0, to the bit, whatever t
        is."""
        feature, unit = np.abs(self.up).argmax(1), np.arange(len(self.up))
        sign = self.up[unit, feature]
        copies = ((self.up != 0).sum(1) == 1) & ((self.down != 0).sum(0) == 1)
        copies &= (np.abs(sign) == 1) & (self.up_bias == 0) & (self.down[feature, unit] == -sign)
        found = np.ones(len(self.down), dtype=bool)
        for one in (1, -1):
            found &= np.bincount(feature[copies & (sign == one)], minlength=len(found)) == 1
        found &= (np.count_nonzero(self.down, axis=1) == 2) & (self.down_bias == 0)
        return np.asarray(copies & found[feature])

    @property
    def clears(self) -> np.ndarray:
        """(width,) the features that become 0."""
        return np.asarray(self.up[self.takes].any(0))

    @property
    def writes(self) -> np.ndarray:
        """(width,) the features that it adds to, but does not clear."""
        return np.asarray(~self.clears & (self.down.any(1) | (self.down_bias != 0)))

    def __call__(self, low: np.ndarray, high: np.ndarray) -> State:
        moving = (low != high).any(0)
        pre = self._sums(low)
        reads = self.up[:, moving].any(1)
        if reads.any():
            # float64 cannot change the sign of t + b, so a unit that reads t alone is off
            single = (self.up[reads] != 0).sum(1) == 1
            off = (np.maximum(pre, self._sums(high)) <= 0).all(0)[reads]
            if not (single & (off | self.takes[reads])).all():
                raise Disagreement("a unit reads a number that moves, and bends or passes it on")
        hidden = np.maximum(pre, 0.0)
        settled(low, self.up, self.up_bias)
        settled(hidden, self.down, self.down_bias)
        more = hidden @ self.down.T + self.down_bias
        after = low + more
        if not moving.any():
            return after, after
        above = high + np.maximum(self._sums(high), 0.0) @ self.down.T + self.down_bias
        wider = (after != above) & (more != 0)  # what is added to a number that moves rounds
        slack = 4 * UNIT * np.maximum(np.abs(after), np.abs(above)) * wider
        return after - slack, above + slack

    def _sums(self, state: np.ndarray) -> np.ndarray:
        return np.asarray(state @ self.up.T + self.up_bias)


@dataclass(eq=False)
class Look:
    """Layers of windows, `margin` or more inside of which numbers must lie; what was found last."""

    windows: Windows
    margin: float = 0.0
    found: np.ndarray | None = None
    cost: int = 100

    @property
    def writes(self) -> np.ndarray:
        """(width,) the features that it adds to; its own are 0 afterwards."""
        return np.asarray(self.windows.values.any(0))

    def __call__(self, low: np.ndarray, high: np.ndarray) -> State:
        windows = self.windows
        if low[:, windows.nodes].any() or high[:, windows.nodes].any() or windows.gate is not None:
            raise Disagreement("windows: their own features are not 0, or have a gate")
        at, margin = windows.at, self.margin
        self.found = windows.find(low[:, at] - margin, high[:, at] + margin)
        added = windows.added(self.found)
        if (added.any(0) & (low != high).any(0)).any():
            raise Disagreement("windows: values are added to a number that moves")
        if not windows.disjoint and (low[:, windows.into] % 1).any():
            raise Disagreement("windows: they do not count up whole numbers")
        return low + added, high + added


@dataclass(eq=False)
class Bumps:
    """A run: u (width,), points (layers, units) where units begin, inf for those not used, down
    (layers, width, units). top: the largest |t| that met a layer of its own."""

    direction: np.ndarray
    points: np.ndarray
    down: np.ndarray
    top: float = 0.0
    cost: int = 100

    @classmethod
    def of(cls, net: Weights, start: int, stop: int) -> Bumps | None:
        """None if these rows are no run."""
        rows = slice(start, stop)
        up, down = net["up_weight"][rows], net["down_weight"][rows]
        used = np.asarray(down.any(1))
        direction = up[0, int(used[0].argmax())]
        points = np.where(used, -net["up_bias"][rows], np.inf)
        first = points.min(1)
        last = np.where(used, points, -np.inf).max(1)
        reads = np.where(used[..., None], up, direction)
        fits = bool(used.any(axis=1).all()) and not net["down_bias"][rows].any()
        fits = fits and bool((reads == direction).all() and (direction >= 0).all())
        if not fits or (last[1:] > first[:-1]).any():
            return None
        return cls(direction, points, down)

    @property
    def writes(self) -> np.ndarray:
        """(width,) the features that it adds to."""
        return np.asarray(self.down.any((0, 2)))

    def __call__(self, low: np.ndarray, high: np.ndarray) -> State:
        low, high = low.copy(), high.copy()
        first = self.points.min(1)
        last = np.where(np.isfinite(self.points), self.points, -np.inf).max(1)
        at, rows = np.zeros(len(low), dtype=np.int64), np.arange(len(low))
        while len(rows):
            t, end = self._read(low[rows])[0], self._read(high[rows])[1]
            layer = np.maximum(at[rows], np.searchsorted(-first, -end, side="right"))
            meets = layer < len(first)
            rows, layer, t, end = rows[meets], layer[meets], t[meets], end[meets]
            below = last[layer] <= t
            self._beyond(t[below], end[below], int(layer[below].min(initial=len(first))))
            rows, layer, t, end = rows[~below], layer[~below], t[~below], end[~below]
            still = (low[rows] == high[rows]).all(1)
            self._own(low, high, rows[still], layer[still], t[still], end[still])
            self._cut(low, high, rows[~still], layer[~still], t[~still], end[~still])
            at[rows] = layer + 1
        return low, high

    def _read(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The least and the largest that u·z may be in float64."""
        t = state @ self.direction
        try:
            exact(state, self.direction[None])
        except Disagreement:
            off = (np.count_nonzero(self.direction) + 1) * UNIT * (np.abs(state) @ self.direction)
            return t - off, t + off
        return t, t

    def _beyond(self, t: np.ndarray, end: np.ndarray, layer: int) -> None:
        """Layers from this one on add exactly 0 to such t."""
        if not len(t):
            return
        points, down = self.points[layer:], self.down[layer:]
        used = np.isfinite(points)
        whole = np.where(used, points, 0.0)
        reach = np.where(used, t.max() - whole, 0.0)
        unit = units(down) * np.minimum(units(whole), common_unit(t))
        size = (np.abs(down) * reach[:, None]).sum(2).max()
        off = np.abs(down.sum(2)).max() + np.abs((down * whole[:, None]).sum(2)).max()
        if (t != end).any() or off or not size < 2.0**53 * unit.min():
            raise Disagreement("a layer that has been passed does not add exactly 0")

    def _own(
        self, low: np.ndarray, high: np.ndarray, rows: np.ndarray, layer: np.ndarray,
        t: np.ndarray, end: np.ndarray,
    ) -> None:  # fmt: skip
        """A number meets its layer."""
        points, t, end = self.points[layer], t[:, None], end[:, None]
        if ((t < end) & (t <= points) & (points <= end)).any():
            raise Disagreement("a number is too close to where a unit bends")
        hidden = np.maximum(low[rows] @ self.direction - points.T, 0.0).T
        more = np.einsum("su,swu->sw", hidden, self.down[layer])
        size = np.einsum("su,swu->sw", hidden, np.abs(self.down[layer]))
        if (size > 4 * np.abs(more)).any():
            raise Disagreement("a bump that is not sure of its height")
        low[rows] += more
        high[rows] = low[rows]
        self.top = max(self.top, float(np.abs(t).max(initial=0.0)))

    def _cut(
        self, low: np.ndarray, high: np.ndarray, rows: np.ndarray, layer: np.ndarray,
        t: np.ndarray, end: np.ndarray,
    ) -> None:  # fmt: skip
        """A range meets its layer: one unit alone, that takes what is above its point away."""
        if not len(rows):
            return
        point = self.points[layer]
        on = point <= t[:, None]
        feature, unit = int(self.direction.argmax()), on.argmax(1)
        at = point[np.arange(len(rows)), unit]
        wanted = np.zeros((len(rows), low.shape[1]))
        wanted[:, feature] = -1.0
        takes = np.array_equal(self.down[layer, :, unit], wanted)
        takes &= self.direction[feature] == 1 and np.count_nonzero(self.direction) == 1
        takes &= bool((on.sum(1) == 1).all() and (on | (point >= end[:, None])).all())
        if not takes or not ((at == 0) | ((at > 0) & (end <= 2 * at))).all():
            raise Disagreement("an entry of a cell does not become one number")
        low[rows, feature] = high[rows, feature] = at


def settled(x: np.ndarray, weight: np.ndarray, shift: np.ndarray) -> None:
    """x W^T + b is the same float in any order of summation, fused or not: two numbers at most are
    added up, of products by powers of two, or nothing rounds."""
    terms = (x != 0).astype(float) @ (weight != 0).T + (shift != 0)
    if (terms > 2).any() or not np.isin(np.frexp(weight)[0], (-0.5, 0.0, 0.5)).all():
        exact(x, weight, shift)


Step = Plain | Look | Bumps


def steps_of(net: Weights, start: int, stop: int) -> list[Step]:
    """What feed-forward halves start, ..., stop-1 do, one after the other."""
    found: list[Step] = []
    used = np.asarray(net["down_weight"][start:stop].any(1))
    reads = net["up_weight"][start:stop] * used[..., None]
    change = np.nonzero((reads[1:] != reads[:-1]).any((1, 2)))[0] + start + 1
    ends = np.append(change, stop)
    row = start
    while row < stop:
        windows, end = read_windows(net, row, stop)
        if end > row:
            found += [Look(one) for one in windows]
            row = end
            continue
        end = int(ends[np.searchsorted(ends, row, side="right")])
        run = Bumps.of(net, row, end) if end > row + 1 else None
        if run is None:
            found.append(Plain.of(net, row))
            row += 1
        else:
            found.append(run)
            row = end
    return found
