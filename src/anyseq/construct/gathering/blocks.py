"""A network as it is being written: blocks, and which pattern of the cycle comes next."""

from __future__ import annotations

from anyseq.construct.gadgets.units import Units
from anyseq.nn import AttentionLayers, FeedForwardLayers, Layers


class Blocks:
    """Runs of layers, all of one width, with at most `hidden` ReLUs; with any number if None."""

    def __init__(self, width: int, hidden: int | None) -> None:
        self.width, self.hidden = width, hidden
        self.runs: list[Layers] = []

    def __len__(self) -> int:
        return sum(map(len, self.runs))

    def wait(self) -> None:
        """A block without halves: it only advances the cycle."""
        self.runs.append(Layers(idle=1))

    def think(self, units: Units) -> None:
        """Feed-forward halves."""
        self.runs.append(Layers(feedforward=self._layers(units)))

    def attend(self, attention: AttentionLayers, units: Units) -> None:
        """A block with attention, and what its feed-forward half does; if that is too much for one
        half, further blocks continue it."""
        layers = self._layers(units)
        self.runs.append(Layers(attention=attention, feedforward=_rows(layers, 0, 1)))
        if len(layers.up_bias) > 1:
            self.runs.append(Layers(feedforward=_rows(layers, 1, None)))

    def _layers(self, units: Units) -> FeedForwardLayers:
        return units.layers(len(units) if self.hidden is None else self.hidden, self.width)


def _rows(layers: FeedForwardLayers, first: int, last: int | None) -> FeedForwardLayers:
    rows = slice(first, last)
    return FeedForwardLayers(
        up_weight=layers.up_weight[rows],
        up_bias=layers.up_bias[rows],
        down_weight=layers.down_weight[rows],
        down_bias=layers.down_bias[rows],
    )
