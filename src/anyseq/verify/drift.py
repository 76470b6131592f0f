"""The rounding of feed-forward layers in float64, read from their weights.

How far computed features are from exact ones is carried from layer to layer, as sums of unknown
numbers in [-1, 1] with known factors (affine arithmetic), so that what is off in two features alike
can cancel. With the largest sizes that features and ReLUs have at the nodes, which bound those
between them (all are affine there, so that absolute values are convex), a sum of k products, in any
order, rounds by at most (k+1)u times the sizes that are summed: a new unknown number. A ReLU that
is on throughout passes on all that is off in its input, α; any other passes on sα with some s in
[0, 1], that is α/2 and a new unknown number times |α|/2. So what leaves a feature,
x - ReLU(x + 1) + 1, takes along what it was off by. A ReLU that is not affine between nodes is off
by as much as it bends.
"""

from __future__ import annotations

import numpy as np

from anyseq.verify.floats import UNIT

_ON = 0.5  # at nodes pre-activations are whole numbers, if they are not multiples of δ
_MARGIN = 1 + 2.0**-20  # for what is off in the sizes themselves


class Drift:
    """off: (width,) how far each feature may be from its exact value.

    values: (width,) bool, features that no layer reads but the last: for them sizes are enough.
    start: (width,) how far features are off before the first layer.
    """

    def __init__(self, values: np.ndarray, start: np.ndarray | float = 0.0) -> None:
        self.values, self._sizes = values, np.zeros(len(values)) + start
        self._factors = np.zeros((len(values), 0))

    @property
    def off(self) -> np.ndarray:
        return np.asarray(self._sizes + np.abs(self._factors).sum(1))

    def layer(
        self,
        up: np.ndarray,
        up_bias: np.ndarray,
        down: np.ndarray,
        down_bias: np.ndarray,
        state: np.ndarray,
        pre: np.ndarray,
        *,
        bent: np.ndarray | float = 0.0,
        rounded: bool = False,
    ) -> None:
        """One more layer; state (..., width) and pre (..., hidden): tokens before it and its
        pre-activations, at the nodes; bent (hidden,): how far its ReLUs are from affine between.
        rounded: what it gives at the nodes has been rounded, too, so that all is off twice."""
        size = np.abs(state).reshape(-1, state.shape[-1]).max(0)
        flat, unit = pre.reshape(-1, pre.shape[-1]), _MARGIN * UNIT * (1 + rounded)
        hidden = np.maximum(flat.max(0), 0.0)
        rounds = unit * (_terms(up) + 2) * (np.abs(up) @ size + np.abs(up_bias))
        rounds = rounds + np.abs(up) @ self._sizes
        passed = up @ self._factors
        most = np.abs(passed).sum(1) + rounds
        on = flat.min(0) >= np.maximum(_ON, most)
        passed = np.where(on[:, None], passed, passed / 2)
        fresh = np.where(on, rounds, (rounds + most) / 2) + bent
        added = np.abs(down) @ hidden + np.abs(down_bias)
        sums = unit * ((_terms(down) + 2) * added + size * (added > 0))
        factors = np.concatenate(
            [self._factors + down @ passed, down * fresh, np.diag(sums)], axis=1
        )
        # what is off in values stays there: what was, is not added again
        new = np.concatenate([down @ passed, down * fresh, np.diag(sums)], axis=1)
        self._sizes[self.values] += np.abs(new[self.values]).sum(1)
        factors[self.values] = 0.0
        self._factors = factors[:, factors.any(0)]


def _terms(weight: np.ndarray) -> np.ndarray:
    """Products in the sums that it makes; those with 0 are exactly 0."""
    return np.asarray(np.count_nonzero(weight, axis=1))
