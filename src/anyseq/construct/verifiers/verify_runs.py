"""Method "yun" where its shifts are not read: sparse patterns, other maps than softmax, gains.

The quantiser is read from the weights: off the ramps every entry becomes the lower end of its cell,
to the bit, so what follows is the same for all inputs in a cell. So one run of the network at the
centre of every sequence of cells is as good as all of them. The windows of the value map and the
last clip are read, too: they say how large ids and outputs can be.

The effect of a gain on x before the quantiser is only sampled at some inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from anyseq.construct.verifiers.claim import Claim
from anyseq.construct.verifiers.verification import fresh
from anyseq.construct.verifiers.verify_cells import Reader, exceptional
from anyseq.construct.verifiers.verify_front import Weights, first_layers
from anyseq.construct.verifiers.verify_terms import Disagreement
from anyseq.nn import Stack

_UNIT = 2.0**-53
_WORK = 5e9  # products in all runs together
_LEAST = 256  # sequences, however large the network is
_BATCH = 4096
_TRIED = 256


def places_run(claim: Claim, network: Stack, order: Sequence[int] | None) -> str:
    """Every token starts from its number in the order, in every feature that counts."""
    places = np.zeros((claim.tokens, network.shape.width))
    counted = max(claim.features, claim.out_features)
    places[:, :counted] = np.array(order, dtype=float).reshape(-1, 1)
    if sorted(order or ()) != [token * claim.positions for token in range(claim.tokens)]:
        raise Disagreement(f"the look-up takes the tokens to start from {order}")
    if network.shape.positions:
        if not np.array_equal(network.get_parameter("position").detach().numpy(), places):
            raise Disagreement("positions: tokens do not start from where the look-up says")
        return f"tokens start from {tuple(order or ())} (read from the weights)"
    if not claim.positions:
        return "none"
    x = fresh().random((_TRIED, claim.tokens, claim.features))
    x[0], x[1] = 0.0, 1.0 - _UNIT
    wanted = np.tile(places, (_TRIED, 1, 1))
    wanted[..., : claim.features] += x
    with torch.no_grad():
        found = first_layers(network, _before_quantiser(claim, network))(torch.from_numpy(x))
    if not np.array_equal(found.numpy(), wanted):
        raise Disagreement("gains: tokens do not start from where the look-up says")
    return (
        f"SAMPLED, not proved: at {_TRIED} inputs gains make tokens start from "
        f"{tuple(order or ())}, exactly"
    )


def _before_quantiser(claim: Claim, network: Stack) -> int:
    """Layers up to and with the one that clears the constant channel."""
    counted = max(claim.features, claim.out_features)
    down = network.get_parameter("down_weight")[:, :, 0].detach().numpy()
    halves = network.get_buffer("halves").numpy()
    (found,) = np.nonzero((down[:, :counted] == 1).all(1) & (down[:, -1] == -1))
    if not len(found):
        raise Disagreement("gains: no layer gives the tokens their positions")
    return int(np.nonzero(halves[:, 1] == found[0])[0][0]) + 1


def cells_run(
    claim: Claim, network: Stack, net: Weights, table: Mapping[str, torch.Tensor]
) -> tuple[str, dict[str, float]]:
    """What was found; the rounding of an entry, the measures of ramps and repeats, the reach."""
    reader, values = Reader(claim, net), table["values"].numpy()
    if network.shape.constant:
        before = net["halves"][: _before_quantiser(claim, network), 1]
        reader.row = int((before >= 0).sum())
    end = 1.0 if claim.positions else reader.idle_in_the_domain()
    first = _layer_of(net, reader.row) if network.shape.constant else 0
    ramp = reader.quantiser()
    if (net["halves"][first : _layer_of(net, reader.row - 1) + 1, 0] >= 0).any():
        raise Disagreement("quantise: there is attention before it ends")
    clips = 2 * -(-claim.out_features // 2)
    row = len(net["up_bias"]) - clips - values[..., 0].size
    if (net["halves"][_layer_of(net, row) + 1 :, 0] >= 0).any():
        raise Disagreement("value map, clip: there is attention after they begin")
    top = _windows(claim, reader, row, values)
    reach = reader.last_clip()
    if float(np.abs(values).max()) > reach:
        raise Disagreement("the last clip cuts values of the table off")
    rounding = _UNIT * (top + 3 * max(claim.bound, 2.0**-960))
    ran, every = outputs_agree(claim, network, table, 2 * rounding)
    how = "all" if ran == every else "SAMPLED, not proved:"
    text = (
        f"quantiser, windows and clip read from the weights; shifts run in float64 at {how} "
        f"{ran:,} of {every:,} sequences of cells: the table"
    )
    return text, {
        "rounding": rounding,
        "rescale": 0.0,
        "reach": reach,
        **exceptional(claim, ramp, end),
    }


def _layer_of(net: Weights, row: int) -> int:
    return int(np.nonzero(net["halves"][:, 1] == row)[0][0])


def _windows(claim: Claim, reader: Reader, row: int, values: np.ndarray) -> float:
    """The highest window; they descend without touching and lie above all values."""
    rows = slice(row, row + values[..., 0].size)
    bias, reads = reader.net["up_bias"][rows], reader.net["up_weight"][rows]
    centre, half = -(bias[:, 0] + bias[:, 3]) / 2, float(bias[0, 0] - bias[0, 3]) / 2
    if half <= 0 or not (reads == reader.digits).all():
        raise Disagreement("value map: it does not read the id")
    if not np.array_equal(bias, half * np.array([1, 0.5, -0.5, -1]) - centre[:, None]):
        raise Disagreement("value map: windows of another shape")
    over = float(np.abs(values).max()) * float(reader.digits.sum())
    if (np.diff(centre) > -2 * half).any() or centre[-1] - half < over:
        raise Disagreement("value map: windows overlap, or hold values")
    reader.row = rows.stop
    return float(centre[0])


def outputs_agree(
    claim: Claim, network: Stack, table: Mapping[str, torch.Tensor], off: float
) -> tuple[int, int]:
    """How many sequences of cells were run, and of how many."""
    cells = claim.steps**claim.features
    every = cells**claim.tokens
    most = int(_WORK / (claim.tokens * network.shape.parameters))
    most = max(most, _LEAST)
    numbers = np.arange(every) if every <= most else fresh().choice(every, most, replace=False)
    for start in range(0, len(numbers), _BATCH):
        part = numbers[start : start + _BATCH]
        spread = np.stack(
            [part // cells ** (claim.tokens - 1 - j) % cells for j in range(claim.tokens)], axis=1
        )
        entries = [spread // claim.steps**k % claim.steps for k in range(claim.features)]
        x = (np.stack(entries, axis=2) + 0.5) / claim.steps
        with torch.no_grad():
            found = network(torch.from_numpy(x)).numpy()
        apart = np.abs(found - _looked_up(claim, table, part, spread)).max()
        if not apart <= off:
            raise Disagreement(f"at the centre of some cells the network is off by {apart:.3g}")
    return len(numbers), every


def _looked_up(
    claim: Claim, table: Mapping[str, torch.Tensor], numbers: np.ndarray, spread: np.ndarray
) -> np.ndarray:
    values = table["values"].numpy()
    if claim.positions:
        return np.asarray(values[numbers])
    order = np.argsort(spread, axis=1, kind="stable")
    ascending = np.take_along_axis(spread, order, axis=1)
    cells = claim.steps**claim.features
    key = ascending @ [cells ** (claim.tokens - 1 - j) for j in range(claim.tokens)]
    row = np.searchsorted(table["keys"].numpy(), key).clip(max=len(values) - 1)
    distinct = np.asarray((np.diff(ascending, axis=1) > 0).all(1))
    out = np.zeros((len(numbers), *values.shape[1:]))
    found = np.where(distinct[:, None, None], values[row], 0.0)
    np.put_along_axis(out, order[:, :, None], found, axis=1)
    return out
