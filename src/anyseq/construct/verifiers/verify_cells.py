"""Method "yun", read from its weights: one value per cell, off the ramps.

The layers must be, in this order (Theorem 2, without positions, has those in brackets):

    [clip, banish]   all ReLUs off on [0, end]: nothing happens in the domain
    quantise         per feature and cell [a, a+δ), downwards: a on [a, a+δ-γ]
    shifts           at g = g_1 < g_2 < ...: ids equal to g grow by c(max - min)
    global shift     all ids grow by S max, then by a lift
    [erase]          ids off [low, high] become 0
    rescale          ids are multiplied by s
    value map        one layer per id a, downwards: a token within g/2 of it becomes its value
    clip             to [-M, M], twice

With positions the tokens start from 0, 1, ..., n-1 in some order, and the shifts may leave out the
ids of the one that starts highest, as along a route through sparse patterns.

All constants (γ, c, S, lift, s, a, g, M) are read from the weights. Ids are then computed in whole
numbers for every sequence of cells, by going through all windows one after the other, and must meet
the windows of the value map one to one, with the table's values behind them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from anyseq.construct.verifiers.claim import Claim
from anyseq.construct.verifiers.verify_front import Weights
from anyseq.construct.verifiers.verify_terms import Disagreement

_LEAD = 746.0  # exp(-745.2) is 0 in float64
_UNIT = 2.0**-53


def cells_network(
    claim: Claim, net: Weights, table: Mapping[str, torch.Tensor]
) -> tuple[str, dict[str, float], list[int]]:
    """What was found; the rounding of an entry and of ids, the measures of ramps and repeats, the
    reach; from where each token starts."""
    reader = Reader(claim, net)
    reader.check_shape()
    end = 1.0 if claim.positions else reader.idle_in_the_domain()
    ramp = reader.quantiser()
    ids, spread = reader.ids()
    good = reader.good(spread)
    if not claim.positions:
        reader.erased(ids, good)
    sequences = spread[good]
    rounding, rescale = reader.value_map(ids[good], sequences, table["values"].numpy())
    reach = reader.last_clip()
    if reader.row != len(net["up_bias"]):
        raise Disagreement(f"{len(net['up_bias']) - reader.row} feed-forward layers too many")
    if float(table["values"].abs().max()) > reach:
        raise Disagreement("the last clip cuts values of the table off")
    text = f"{len(sequences):,} sequences of cells, {ids[good].size:,} ids, all windows and values"
    measured = {"rounding": rounding, "rescale": rescale, "reach": reach}
    return text, measured | exceptional(claim, ramp, end), reader.starts.tolist()


def exceptional(claim: Claim, ramp: float, end: float) -> dict[str, float]:
    """The measures of the inputs on ramps, or beyond the end, and of those with repeated cells; and
    the width of a ramp, and the end."""
    axes, cells = claim.tokens * claim.features, claim.steps**claim.features
    share = ramp * claim.steps + (1.0 - end)
    distinct = np.prod([max(0, cells - j) / cells for j in range(claim.tokens)])
    return {
        "ramps": float(-np.expm1(axes * np.log1p(-share))),
        "repeats": 0.0 if claim.positions else float(1 - distinct),
        "ramp": ramp,
        "end": end,
    }


class Reader:
    """Goes through the layers once; `row` is the next feed-forward half."""

    def __init__(self, claim: Claim, net: Weights) -> None:
        self.claim, self.net, self.row = claim, net, 0
        self.width = net["up_weight"].shape[2]
        self.step = 1.0 / claim.steps
        counted = max(claim.features, claim.out_features)  # a further feature counts nothing
        self.digits = np.array([float(claim.steps) ** k * (k < counted) for k in range(self.width)])
        self.cells = claim.steps**claim.features  # of a token
        self.starts = np.zeros(claim.tokens, dtype=np.int64)
        if "constant" in net and ("position" in net or claim.dense or not claim.positions):
            raise Disagreement("a constant is added to x, and no gains turn it into positions")

    def check_shape(self) -> None:
        """Attention halves in one run, each but the last without feed-forward, and E."""
        claim, halves = self.claim, self.net["halves"]
        halves = halves[: int(np.nonzero(halves >= 0)[0].max()) + 1]  # idle layers may follow
        (at,) = np.nonzero(halves[:, 0] >= 0)
        idle = np.nonzero(halves[:, 1] < 0)[0]
        if not (np.array_equal(at, np.arange(at[0], at[-1] + 1)) and np.array_equal(idle, at[:-1])):
            raise Disagreement("expected one run of attention layers")
        for half in (0, 1):
            rows = halves[:, half][halves[:, half] >= 0]
            if not np.array_equal(rows, np.arange(len(rows))):
                raise Disagreement("the layers are not in order")
        self.shift_row = int((halves[: at[-1], 1] >= 0).sum())  # feed-forward of the global shift
        if claim.positions:
            starts = self.net["position"]
            if sorted(starts[:, 0].tolist()) != list(range(claim.tokens)):
                raise Disagreement("positions: tokens do not start from 0, 1, ... in some order")
            if not (starts == starts[:, :1]).all():
                raise Disagreement("positions: a token does not start alike in every feature")
            self.starts = starts[:, 0].astype(np.int64)
        if self.width != max(claim.features, claim.out_features):
            raise Disagreement(f"width {self.width}")

    def _take(self, count: int) -> Weights:
        rows = slice(self.row, self.row + count)
        self.row += count
        names = ("up_weight", "up_bias", "down_weight", "down_bias")
        return {name: self.net[name][rows] for name in names}

    def idle_in_the_domain(self) -> float:
        """Clip and banish: all ReLUs off between 0 and the largest entry where they are."""
        layers = self._take(2 * -(-self.claim.features // 2) + self.claim.features)
        at_zero, slope = layers["up_bias"], layers["up_weight"].clip(min=0).sum(2)
        used = layers["down_weight"].any(1)
        if (at_zero[used] > 0).any() or layers["down_bias"].any():
            raise Disagreement("clip, banish: they change entries at 0")
        rising = used & (slope > 0)
        end = float((-at_zero[rising] / slope[rising]).min(initial=1.0))
        if not 0.5 < end <= 1.0:
            raise Disagreement(f"clip, banish: they change entries from {end:g} on")
        return end

    def quantiser(self) -> float:
        """The width of the ramps."""
        claim, step = self.claim, self.step
        cells = claim.steps * (claim.tokens if claim.positions else 1)
        layers = self._take(claim.features * cells)
        steep = float(layers["down_weight"][0, 0, 1])
        ramp = step / steep if steep > 1 else 0.0
        if np.log2(steep) % 1 or ramp <= 0 or cells * step / ramp > 2.0**52:
            raise Disagreement("quantise: a ramp that float64 cannot hold")
        low = np.arange(cells - 1, -1, -1) * step
        up = np.zeros_like(layers["up_weight"])
        bias = np.zeros_like(layers["up_bias"])
        down = np.zeros_like(layers["down_weight"])
        for feature in range(claim.features):
            rows = slice(feature * cells, (feature + 1) * cells)
            up[rows, :3, feature] = 1.0
            bias[rows, :3] = -np.stack([low, low + step - ramp, low + step], axis=1)
            down[rows, feature, :3] = [-1.0, steep, 1.0 - steep]
        expected = {"up_weight": up, "up_bias": bias, "down_weight": down}
        for name, tensor in (*expected.items(), ("down_bias", np.zeros_like(layers["down_bias"]))):
            if not np.array_equal(layers[name], tensor):
                raise Disagreement(f"quantise: {name} is not that of the cells")
        return float(ramp)

    def ids(self) -> tuple[np.ndarray, np.ndarray]:
        """(S, n) final ids in units of δ, and the cells of the tokens of all S sequences."""
        net, claim, digits = self.net, self.claim, self.digits
        sharp = float(net["q_weight"][0, 0, 0])
        if sharp * self.step**2 / 2 < _LEAD or np.log2(sharp) % 1:
            raise Disagreement("shifts: softmax is not sharp enough")
        for name, factor in (("q_weight", sharp), ("k_weight", 1.0), ("v_weight", 1.0)):
            if not (net[name][:-1] == factor * digits).all():
                raise Disagreement(f"shifts: {name} does not read the id")
        at = -(net["q_bias"][:-1] / sharp) / self.step  # (windows, 2): g - 1/2, g + 1/2
        windows = at.mean(1)
        base = int(claim.steps * digits.sum()) if claim.positions else 0
        lowest = range(len(at) // self.cells)  # the starts whose ids are swept
        if len(lowest) not in ((claim.tokens - 1, claim.tokens) if claim.positions else (1,)):
            raise Disagreement("shifts: windows for another number of tokens")
        swept = [start * base + cell for start in lowest for cell in range(self.cells)]
        if not np.array_equal(at, np.array(swept)[:, None] + [[-0.5, 0.5]]):
            raise Disagreement("shifts: the windows do not sweep the ids upwards")
        out = net["o_weight"][:-1]
        shift = float(out[0, 0, 0])
        if out[:, 1:].any() or not (out[:, 0] == [shift, -shift]).all():
            raise Disagreement("shifts: they do not cancel off their window")
        total, lift = self._global_shift()

        numbers = np.arange(self.cells**claim.tokens)
        places = [self.cells ** (claim.tokens - 1 - j) for j in range(claim.tokens)]
        spread = np.stack([numbers // place % self.cells for place in places], axis=1)
        if not claim.positions:
            spread = spread[(np.diff(spread, axis=1) >= 0).all(1)]
        ids = spread + self.starts * base
        self._fits(shift, total, lift)
        for window in windows.astype(np.int64):
            met = ids == window
            rows = met.any(1)
            some = ids[rows]
            across = some.max(1) - some.min(1)
            if shift * float(across.max(initial=0)) >= 2.0**53:  # int64 would not notice
                raise Disagreement("shifts: ids too large to be computed")
            ids[rows] = np.where(met[rows], some + int(shift) * across[:, None], some)
        return ids + int(total) * ids.max(1)[:, None] + int(lift), spread

    def _global_shift(self) -> tuple[float, float]:
        """(S, lift in units of δ)."""
        net, digits = self.net, self.digits
        sharp, total = float(net["q_bias"][-1, 0]), float(net["o_weight"][-1, 0, 0])
        # ids are not negative, so that a query sharp·(id + 1) is as sharp as the constant one
        slope = sharp if net["q_weight"][-1, 0].any() else 0.0
        reads = [net[name][-1] for name in ("q_weight", "k_weight", "v_weight")]
        if not all((r[0] == f * digits).all() for r, f in zip(reads, (slope, 1, 1), strict=True)):
            raise Disagreement("global shift: it does not read the id")
        if not sharp * self.step >= _LEAD or np.log2(sharp) % 1:
            raise Disagreement("global shift: softmax is not sharp enough")
        if net["o_weight"][-1, 1:].any() or net["o_weight"][-1, 0, 1]:
            raise Disagreement("global shift: it writes more than the id")
        if self.row != self.shift_row:
            raise Disagreement("global shift: it is not where the quantiser ends")
        layer = self._take(1)
        if layer["down_weight"].any() or layer["down_bias"][0, 1:].any():
            raise Disagreement("global shift: its feed-forward half adds more than a constant")
        return total, float(layer["down_bias"][0, 0]) / self.step

    def _fits(self, shift: float, total: float, lift: float) -> None:
        """No id may pass 2^53 units: an overestimate of the largest, in floating point."""
        largest = float(self.claim.tokens * self.claim.steps * self.digits.sum())
        for _ in range(self.claim.tokens):
            largest *= 1 + abs(shift)
        if min(shift, total) < 1 or lift < 0 or {shift % 1, total % 1, lift % 1} != {0.0}:
            raise Disagreement("shifts: not by whole numbers")
        if largest * (1 + total) + lift >= 2.0**62:
            raise Disagreement("shifts: ids too large to be computed")

    def good(self, spread: np.ndarray) -> np.ndarray:
        """Which sequences have values: without positions those of different cells."""
        if self.claim.positions:
            return np.ones(len(spread), dtype=bool)
        return np.asarray((np.diff(spread, axis=1) > 0).all(1))

    def erased(self, ids: np.ndarray, good: np.ndarray) -> None:
        """Good ids pass, all ReLUs off; the others become 0."""
        layers = self._take(1 + -(-self.width // 4))
        up, bias, down = (layers[name] for name in ("up_weight", "up_bias", "down_weight"))
        if not np.array_equal(up[0, :2], np.stack([-self.digits, self.digits])) or up[0, 2:].any():
            raise Disagreement("erase: it does not read the id")
        t = ids * self.step
        push = np.maximum(bias[0, 0] - t, 0) + np.maximum(t + bias[0, 1], 0)
        if push[good].any() or bias[0, 2:].any() or layers["down_bias"].any():
            raise Disagreement("erase: good ids do not pass")
        strength = -down[0, :, :2]
        if not (strength == strength[0, 0]).all() or down[0, :, 2:].any():
            raise Disagreement("erase: it does not push all features")
        # no entry exceeds its id: u >= 1, entries >= 0
        if (push[~good] * strength[0, 0] <= t[~good] + 1).any():
            raise Disagreement("erase: a bad id stays above 0")
        for feature in range(self.width):
            row, unit = 1 + feature // 4, feature % 4
            if up[row, unit, feature] != -1 or down[row, feature, unit] != 1 or bias[1:].any():
                raise Disagreement("erase: negative entries do not become 0")
        if np.abs(up[1:]).sum() != self.width or np.abs(down[1:]).sum() != self.width:
            raise Disagreement("erase: it does more than clear negative entries")

    def value_map(
        self, ids: np.ndarray, spread: np.ndarray, values: np.ndarray
    ) -> tuple[float, float]:
        """The rounding of one entry, and that of ids by the rescale layer before; ids (S, n), table
        (S, n, out)."""
        scale = self._scale()
        layers = self._take(ids.size)
        if len(layers["up_bias"]) != ids.size or values.shape[:2] != ids.shape:
            raise Disagreement(f"value map: {len(layers['up_bias'])} layers for {ids.size} ids")
        bias, down = layers["up_bias"], layers["down_weight"]
        centre, half = -(bias[:, 0] + bias[:, 3]) / 2, float(bias[0, 0] - bias[0, 3]) / 2
        if half <= 0 or np.log2(half) % 1 or not (layers["up_weight"] == self.digits).all():
            raise Disagreement("value map: it does not read the id")
        if not np.array_equal(bias, half * np.array([1, 0.5, -0.5, -1]) - centre[:, None]):
            raise Disagreement("value map: windows of another shape")
        order = np.argsort(-ids, axis=None, kind="stable")
        exact = ids.reshape(-1)[order] * self.step
        if int(ids.max()) >= 2**53 or (np.abs(centre - exact * scale) > half / 4).any():
            raise Disagreement("value map: a window is not at its id")
        rescale = 0.0 if scale == 1.0 else float(exact[0]) * _UNIT
        if rescale > half / 4:
            raise Disagreement("rescale: ids lose more than their windows hold")
        reach = float(np.abs(values).max()) * float(self.digits.sum())
        if (np.diff(centre) > -2 * half).any() or centre[-1] - half < reach:
            raise Disagreement("value map: windows overlap, or hold values")
        change = down[:, :, 0] * (half / 2)
        signs = np.array([1.0, -1.0, -1.0, 1.0]) * (2 / half)
        if not np.array_equal(down, change[:, :, None] * signs) or layers["down_bias"].any():
            raise Disagreement("value map: a window that is not a bump")
        token = self._tokens(spread, centre[np.argsort(order)].reshape(ids.shape))
        left = token.reshape(-1, self.width)[order] + change
        rounding = _UNIT * (float(exact[0]) * scale + 3 * max(self.claim.bound, 2.0**-960))
        wanted = values.reshape(ids.size, -1)[order]
        if (np.abs(left[:, : self.claim.out_features] - wanted) > 2 * rounding).any():
            raise Disagreement("value map: a value is not the table's")
        return rounding, rescale

    def _scale(self) -> float:
        """The power of two by which ids are multiplied."""
        layer = self._take(1)
        scale, down = float(layer["down_weight"][0, 0, 1]), layer["down_weight"][0].copy()
        down[0, :2] -= [-1.0, scale]
        reads = (layer["up_weight"][0, :2] == self.digits).all()
        if not reads or layer["up_bias"][0, :2].any() or down.any() or layer["down_bias"].any():
            raise Disagreement("rescale: it does more than multiply the id")
        if not 0 < scale <= 1 or np.log2(scale) % 1:
            raise Disagreement(f"rescale: by {scale:g}")
        return scale

    def _tokens(self, spread: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """(S, n, width): tokens before the value map: quantised, feature 0 as the id says."""
        claim = self.claim
        token = np.zeros((*spread.shape, self.width))
        for feature in range(claim.features):
            token[..., feature] = spread // claim.steps**feature % claim.steps * self.step
        token += self.starts[:, None]
        token[..., 0] = ids - token[..., 1:] @ self.digits[1:]
        return token

    def last_clip(self) -> float:
        """The bound M of the last clip."""
        features = self.claim.out_features
        each = -(-features // 2)
        layers = self._take(2 * each)
        bound = -float(layers["up_bias"].min())
        for feature in range(features):
            unit = 2 * (feature % 2)
            for row in (feature // 2, feature // 2 + each):
                up = layers["up_weight"][row, unit : unit + 2, feature].tolist()
                down = layers["down_weight"][row, feature, unit : unit + 2].tolist()
                bias = layers["up_bias"][row, unit : unit + 2].tolist()
                if up != [1, -1] or down != [-1, 1] or bias != [-bound, -bound]:
                    raise Disagreement("the last clip is none")
        total = sum(np.abs(layers[name]).sum() for name in ("up_weight", "down_weight"))
        if total != 8 * features or layers["down_bias"].any() or bound < 0:
            raise Disagreement("the last clip does more than clip")
        return bound
