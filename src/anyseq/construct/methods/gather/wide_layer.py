"""The ridges of `anyseq.construct.tables.ridges` as one feed-forward half, for every token its own.

With knots t_0 < t_1 < ... and slopes s_0, s_1, ... between them, a ridge is

    φ(t_0) + s_0 (u - t_0) + Σ_(j>=1) (s_j - s_(j-1)) ReLU(u - t_j),   u = κ·x.

What comes before the sum adds up, over all ridges, to one affine function of x, for which one ReLU
for each entry of x and a constant one are enough, since x >= 0. The ReLUs of token i get -B times
the form that is 0 in token i and 1 in all others: with B above all that they can be there, others
have them off. The features of the output still hold x, which is taken off.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from anyseq.base import power_of_two_at_least
from anyseq.construct.gadgets.blank import blank_feed_forward
from anyseq.construct.gathering import Reader
from anyseq.construct.tables.fused_ridges import RidgeTable
from anyseq.nn import FeedForwardLayers

MOST = 3.0
"""What a feature that is read can be, in any token: x, a wave, and both once more by attention."""


def reach(reader: Reader) -> float:
    """What a token that is not the reader's can take for an entry of x, at most."""
    return max(weight * MOST + abs(shift) for _, weight, shift in filter(None, reader.slots))


def shut(reader: Reader, axes: int, degree: int) -> float:
    """B."""
    return power_of_two_at_least(2 * (axes * degree + 1) * (reach(reader) + 1))


def readable(reader: Reader, directions: torch.Tensor) -> torch.Tensor:
    """(R,) bool: the ridges that depend only on what the reader wants."""
    unknown = torch.tensor([slot is None for slot in reader.slots])
    return ~directions[:, unknown].any(1)


def units(reader: Reader, directions: torch.Tensor, pieces: torch.Tensor) -> int:
    """How many ReLUs a token has."""
    known = sum(slot is not None for slot in reader.slots)
    return int((pieces - 1)[readable(reader, directions)].sum()) + known + 1


def wide_layer(
    table: RidgeTable,
    readers: Sequence[Reader],
    *,
    features: int,
    degree: int,
    hidden: int,
    width: int,
) -> FeedForwardLayers:
    """hidden: as many ReLUs as the network has, at least those of all readers."""
    layer = blank_feed_forward(1, hidden, width)
    up, bias, down = layer.up_weight[0], layer.up_bias[0], layer.down_weight[0]
    outputs, start = table.constant.shape[1], 0
    for token, reader in enumerate(readers):
        read, shift = _reading(reader, width)
        chosen = readable(reader, table.directions)
        kinks, at, steps, affine, constant = _kinks(table, token, chosen)
        own = range(token * features, token * features + min(features, outputs))
        for f, axis in enumerate(own):
            affine[axis, f] -= 1.0  # x itself
        constant = constant - reader.before[:outputs]
        known = [axis for axis, slot in enumerate(reader.slots) if slot is not None]
        rows = slice(start, start + len(kinks))
        up[rows], bias[rows] = kinks @ read, kinks @ shift - at
        down[:outputs, rows] = steps.T
        start += len(kinks)
        rows = slice(start, start + len(known))
        up[rows], bias[rows] = read[known], shift[known]
        down[:outputs, rows] = affine[known].T
        start += len(known)
        bias[start] = 1.0
        down[:outputs, start] = constant
        start += 1
        first = start - 1 - len(known) - len(kinks)
        up[first:start] -= shut(reader, len(reader.slots), degree) * reader.others
    return layer


def _reading(reader: Reader, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """x = read z + shift: (D, width), (D,); 0 where it is not wanted."""
    read = torch.zeros(len(reader.slots), width, dtype=torch.float64)
    shift = torch.zeros(len(reader.slots), dtype=torch.float64)
    for axis, slot in enumerate(reader.slots):
        if slot is not None:
            feature, read[axis, feature], shift[axis] = slot[0], slot[1], slot[2]
    return read, shift


def _kinks(
    table: RidgeTable, token: int, chosen: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Directions (U, D), places (U,) and changes of slope (U, out) of all kinks inside; then the
    affine rest, (D, out) and (out,)."""
    ridge = chosen.nonzero()[:, 0]
    values, rate, first = table.knots[:, token], table.rate[ridge], table.first[ridge]
    slope = (values[first + 1] - values[first]) * rate[:, None]
    affine = table.directions[ridge].T @ slope
    constant = table.constant[token] + (values[first] - table.low[ridge, None] * slope).sum(0)
    inside = table.pieces[ridge] - 1
    of = torch.repeat_interleave(torch.arange(len(ridge)), inside)
    j = torch.arange(len(of)) - (inside.cumsum(0) - inside)[of] + 1
    knot = first[of] + j
    after, before = values[knot + 1] - values[knot], values[knot] - values[knot - 1]
    steps = after * rate[of, None] - before * rate[of, None]
    at = table.low[ridge][of] + j / rate[of]
    return table.directions[ridge][of], at, steps, affine, constant
