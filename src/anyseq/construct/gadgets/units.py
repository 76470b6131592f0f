"""A feed-forward layer written ReLU by ReLU, and cut into narrow layers.

A wide layer may be cut anywhere into consecutive narrower ones if no ReLU reads a feature that an
earlier one writes, itself excepted; everything that uses `Units` keeps to that order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from anyseq.construct.gadgets.blank import blank_feed_forward
from anyseq.nn import FeedForwardLayers

Form = Mapping[int, float]
"""Feature -> coefficient."""


class Units:
    """ReLUs in the order in which a cut may separate them."""

    def __init__(self) -> None:
        self._units: list[tuple[Form, float, Form]] = []

    def __len__(self) -> int:
        return len(self._units)

    def add(self, read: Form, write: Form, bias: float = 0.0) -> None:
        """h = ReLU(Σ read·z + bias), and z += write·h."""
        self._units.append((read, bias, write))

    def clear(self, features: Iterable[int], *, signed: bool = False) -> None:
        """z - ReLU(z) = 0 where z >= 0; with ReLU(-z) added back, whatever its sign: min(z, 0)
        after the first ReLU, exactly 0 after the second, also if a cut lies between them."""
        for feature in features:
            self.add({feature: 1.0}, {feature: -1.0})
            if signed:
                self.add({feature: -1.0}, {feature: 1.0})

    def layers(self, hidden: int, width: int) -> FeedForwardLayers:
        """As many layers of `hidden` ReLUs as it takes."""
        layers = blank_feed_forward(-(-len(self._units) // hidden), hidden, width)
        for index, (read, bias, write) in enumerate(self._units):
            row, unit = divmod(index, hidden)
            for feature, weight in read.items():
                layers.up_weight[row, unit, feature] = weight
            layers.up_bias[row, unit] = bias
            for feature, weight in write.items():
                layers.down_weight[row, feature, unit] = weight
        return layers
