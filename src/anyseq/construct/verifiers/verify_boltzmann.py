"""Method "boltzmann", both forms, from its weights: one value per sequence of cells, off the ramps.

The layers must be, in this order, with idle ones anywhere:

    numbering     per feature, windows [k/steps, 1] and beyond: a token's number grows by the number
                  of its cell
    round         attention, which reads no input, brings every position a number; half of the same
                  layer clears the inputs, and makes key = brought + shift·number, number = 0
    windows       around keys: number = that of the window; then a layer clears the key
    ...           further rounds
    windows       of the last round: the output is the value of the window

Off the ramps of the numbering, the number of a token is that of its cell to the bit, the inputs are
gone with the first round, and what follows knows the numbers only. So attention, run once for every
sequence of cells, says what happens to all inputs; feed-forward layers are read, not run. (Dense
attention without positions knows no order: ascending sequences are enough.) The keys must lie well
inside their windows: attention of other batches, or in another order, may round otherwise.

On the ramps keys are arbitrary, but no two windows of the last round overlap: |T| is at most the
largest value. Tokens of different cells that end in one window are counted (`verify_lost`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np
import torch

from anyseq.construct.verifiers.claim import Claim
from anyseq.construct.verifiers.verification import fresh
from anyseq.construct.verifiers.verify_front import Weights
from anyseq.construct.verifiers.verify_lost import cases_of, lost_pairs
from anyseq.construct.verifiers.verify_multisets import all_multisets
from anyseq.construct.verifiers.verify_terms import Disagreement, by_multisets
from anyseq.construct.verifiers.verify_windows import FeedForwardReader, Windows
from anyseq.nn import Stack

_BATCH = 4096
_WORK = 1e9  # products in all runs of the whole network
_LEAST = 64  # sequences that it is run at, if there are as many


def boltzmann_network(
    claim: Claim, network: Stack, net: Weights, table: Mapping[str, torch.Tensor]
) -> tuple[str, dict[str, float], dict[str, torch.Tensor]]:
    """What was found; the measures of inputs on ramps and of inputs with lost tokens, the share of
    lost pairs, and the reach; and what is "known" of f: NaN where pairs are lost."""
    values = table["values"].numpy()
    sequences = all_sequences(claim, len(values))
    read = _Network(claim, network, net)
    groups, inside = read.follow(sequences)
    _, _, last = read.rounds[-1]
    if not np.array_equal(last.values[groups], values):
        raise Disagreement("windows: a value is not the table's")
    lost = lost_pairs(groups, cases_of(sequences, claim.steps**claim.features, claim.kind))
    if by_multisets(claim) and lost.any():
        raise Disagreement("two tokens of different values have one window")
    ran = _run(claim, network, sequences, values)
    what = "multisets" if by_multisets(claim) else "sequences"
    text = (
        f"numbering and windows read from the weights; attention run in float64 at all "
        f"{len(sequences):,} {what} of cells: {groups.size:,} keys, {inside:.2g} or more inside "
        f"their windows, whose values are the table's; the whole network run at {ran:,}"
    )
    free = 1 - Fraction(read.ramp) * (claim.steps - 1)
    return (
        text,
        {
            "rounding": 0.0,
            "rescale": 0.0,
            "reach": float(np.abs(last.values).max()),
            "ramp": read.ramp,
            "ramps": float(1 - free ** (claim.tokens * claim.features)),
            "alike": float(lost.mean()),
            "lost": float(lost.any(1).mean()),
        },
        {"known": torch.from_numpy(np.where(lost[..., None], np.nan, values))},
    )


def all_sequences(claim: Claim, rows: int) -> np.ndarray:
    """(rows, n) the cells of the tokens, in the order of the table: the last token fastest, or that
    of multisets."""
    cells, tokens = claim.steps**claim.features, claim.tokens
    if by_multisets(claim):
        return all_multisets(cells, tokens)
    places = [cells ** (tokens - 1 - token) for token in range(tokens)]
    return np.stack([np.arange(rows) // place % cells for place in places], axis=1)


class _Network:
    """What the weights contain; `follow` traces sequences of cells.

    Features: input and output | number | what else attention may read | key | of windows.
    """

    def __init__(self, claim: Claim, network: Stack, net: Weights) -> None:
        self.claim, self.network, self.net = claim, network, net
        self.number = max(claim.features, claim.out_features)
        self.key = self.number + 1 + int(network.shape.constant)
        self.reader = FeedForwardReader(net, self.key + 1)
        layers = np.nonzero(net["halves"][:, 0] >= 0)[0].tolist()
        rows = net["halves"][layers, 1].tolist()
        if not rows or min(rows) < 0:
            raise Disagreement("rounds: a layer of attention alone")
        self.start = self._start()
        self.ramp = self._numbering(rows[0])
        ends = [*rows[1:], len(net["up_bias"])]
        self.rounds = [
            (layer, *self._round(place, end))
            for place, (layer, end) in enumerate(zip(layers, ends, strict=True))
        ]

    def _start(self) -> np.ndarray:
        """(positions, width) what enters the first layer with x = 0."""
        shape = self.network.shape
        nothing = torch.zeros(1, shape.tokens, shape.in_features, dtype=torch.float64)
        with torch.no_grad():
            start = next(self.network.trace(nothing))[1][0].numpy().copy()
        used = start.copy()
        used[:, self.number + 1 : self.key] = 0.0  # what attention may read besides numbers
        numbers = used[:, self.number].copy()
        used[:, self.number] = 0.0
        if used.any() or (numbers < 0).any() or (numbers % 1).any() or (numbers > 2.0**50).any():
            raise Disagreement("numbering: positions do not start from whole numbers")
        return start

    def _numbering(self, end: int) -> float:
        """The width of the ramps."""
        claim, ramps = self.claim, []
        for axis in range(claim.features):
            found = self.reader.windows(claim.steps - 1, "numbering", at=axis, into=self.number)
            ends = np.arange(1, claim.steps) / claim.steps
            if not np.array_equal(found.low, ends) or (found.high < 1).any():
                raise Disagreement("numbering: windows are not those of the cells")
            if (found.values != claim.steps**axis).any():
                raise Disagreement("numbering: it does not number the cells")
            ramps.append(found.ramp)
        if not max(ramps) * claim.steps < 1:
            raise Disagreement("numbering: ramps as wide as cells")
        self._check_end(end, "numbering")
        return max(ramps)

    def _round(self, place: int, end: int) -> tuple[float, Windows]:
        """Its shift, and its windows: of values in the last round, before of whole numbers, and
        then the key is cleared."""
        shift, last = self._listens(place), end == len(self.net["up_bias"])
        inner = self.net["down_weight"][self.reader.row : end - (not last) : 2]
        found = self.reader.windows(
            int(np.count_nonzero(inner)) // 2,  # a window has two of these weights
            "windows",
            at=self.key,
            into=0 if last else self.number,
            outputs=self.claim.out_features if last else 1,
        )
        found.check_apart()
        if not last:
            if (found.values < 0).any() or (found.values % 1).any():
                raise Disagreement("windows: they do not give whole numbers")
            self.reader.expect(self.reader.clearing(self.key, 1), "rounds")
        self._check_end(end, "windows")
        return shift, found

    def _check_end(self, end: int, what: str) -> None:
        if self.reader.row != end:
            raise Disagreement(f"{what}: up to feed-forward layer {self.reader.row}, not {end}")

    def _listens(self, place: int) -> float:
        """The shift of a round, in which attention reads no input and writes the key alone."""
        net, inputs = self.net, self.claim.features
        reads = [net[f"{name}_weight"][place][:, : self.number] for name in "qkv"]
        writes = np.delete(net["o_weight"][place], self.key, axis=0)
        if any(part.any() for part in reads) or writes.any():
            raise Disagreement("rounds: attention reads inputs, or writes more than a key")
        layer, unit = self.reader.clearing(0, inputs), 2 * inputs
        shift = float(self.reader.peek()["down_weight"][self.key, unit])
        layer["up_weight"][unit, self.number] = 1.0
        layer["down_weight"][[self.number, self.key], unit] = -1.0, shift
        self.reader.expect(layer, "rounds")
        return shift

    def follow(self, sequences: np.ndarray) -> tuple[np.ndarray, float]:
        """(S, n) the window of the last round that each token ends in, and how far inside it."""
        bos = int(self.network.shape.bos)
        numbers = np.pad(sequences, ((0, 0), (bos, 0))) + self.start[:, self.number]
        inside = []
        for layer, shift, windows in self.rounds:
            keys = self._brought(layer, numbers) + shift * numbers
            if layer == self.rounds[-1][0]:
                keys = keys[:, bos:]
            groups, depth = windows.find(keys)
            numbers = windows.values[groups, 0]
            inside.append(depth)
        return groups, min(inside)

    def _brought(self, layer: int, numbers: np.ndarray) -> np.ndarray:
        """What attention of a layer brings: (S, positions), from the numbers of all positions."""
        attention = _attention_alone(self.network, layer)
        state = torch.from_numpy(self.start).expand(_BATCH, -1, -1).clone()
        found = np.empty_like(numbers)
        for first in range(0, len(numbers), _BATCH):
            part = torch.from_numpy(numbers[first : first + _BATCH])
            state[: len(part), :, self.number] = part
            with torch.no_grad():
                after = attention(state[: len(part)])[..., self.key]
            found[first : first + len(part)] = after.numpy()
        return found


def _attention_alone(network: Stack, layer: int) -> Stack:
    """The attention half of a layer, on whole states with BOS in them."""
    tensors, design = network.state_dict(), network.design
    row = int(tensors["halves"][layer, 0])
    turn = layer % len(design.cycle)
    shape = replace(
        network.shape,
        tokens=design.size,
        in_features=network.shape.width,
        out_features=network.shape.width,
        layers=turn + 1,
        attention_layers=1,
        feedforward_layers=0,
        positions=False,
        constant=False,
        bos=False,
    )
    kept = {}
    for name, size in shape.tensors().items():
        kept[name] = tensors[name]
        if name != "gain":  # all layers share it
            kept[name] = tensors[name][row : row + 1] if size[0] else tensors[name][:0]
    halves = torch.full((turn + 1, 2), -1, dtype=torch.int32)
    halves[turn, 0] = 0
    return Stack(design, shape, kept | {"halves": halves})


def _run(claim: Claim, network: Stack, sequences: np.ndarray, values: np.ndarray) -> int:
    """At how many sequences the whole network was run: all, or some, inputs anywhere in their
    cells, in any order where the table is independent of the order."""
    most = max(_LEAST, int(_WORK / (claim.tokens * network.shape.parameters)))
    rng = fresh()
    rows = np.arange(len(sequences))
    if len(rows) > most:
        rows = rng.choice(len(rows), most, replace=False)
    for first in range(0, len(rows), _BATCH):
        part = rows[first : first + _BATCH]
        spread, wanted = sequences[part], values[part]
        if by_multisets(claim):
            order = rng.permuted(np.tile(np.arange(claim.tokens), (len(part), 1)), axis=1)
            spread = np.take_along_axis(spread, order, axis=1)
            wanted = np.take_along_axis(wanted, order[..., None], axis=1)
        entries = spread[..., None] // claim.steps ** np.arange(claim.features) % claim.steps
        x = (entries + 0.999 * rng.random(entries.shape)) / claim.steps
        with torch.no_grad():
            found = network(torch.from_numpy(x)).numpy()
        if not np.array_equal(found, wanted):
            apart = np.abs(found - wanted).max()
            raise Disagreement(f"within some cells the network is off the table by {apart:.3g}")
    return len(rows)
