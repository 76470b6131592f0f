"""What float64 may add to what feed-forward layers compute, read from their weights.

A bound for how far computed features are from exact ones is carried from layer to layer. With the
largest sizes that features and ReLUs have at the nodes, which bound those between them (all are
affine there, so that absolute values are convex), a sum of k products, in any order, rounds by at
most (k+1)u times the sizes that are summed. What was off before is passed on by the weights: by
|down| |up|, since a ReLU is no steeper than 1; and by |1 + down up| where ReLUs are on throughout,
so that what leaves a feature in this way, x - ReLU(x + 1) + 1, takes along what it was off by.
"""

from __future__ import annotations

import numpy as np

_UNIT = 2.0**-53
_ON = 0.5  # at nodes pre-activations are whole numbers, if they are not multiples of δ
_MARGIN = 1 + 2.0**-20  # for what is off in the sizes themselves


class Drift:
    """off: (width,) how far each feature may be from its exact value."""

    def __init__(self, width: int) -> None:
        self.off = np.zeros(width)

    def layer(
        self,
        up: np.ndarray,
        up_bias: np.ndarray,
        down: np.ndarray,
        down_bias: np.ndarray,
        state: np.ndarray,
        pre: np.ndarray,
    ) -> None:
        """One more layer; state (..., width) and pre (..., hidden): tokens before it and its
        pre-activations, at the nodes."""
        size = np.abs(state).reshape(-1, state.shape[-1]).max(0)
        flat = pre.reshape(-1, pre.shape[-1])
        hidden, on = np.maximum(flat.max(0), 0.0), flat.min(0) >= _ON
        terms, summed = _terms(up), np.abs(up) @ size + np.abs(up_bias)
        inside = np.abs(up) @ self.off * ~on + _UNIT * (terms + 2) * summed
        added = np.abs(down) @ hidden + np.abs(down_bias)
        straight = np.eye(len(size)) + down[:, on] @ up[on]
        self.off = _MARGIN * (
            np.abs(straight) @ self.off
            + np.abs(down) @ inside
            + _UNIT * ((_terms(down) + 2) * added + size * (added > 0))
        )


def _terms(weight: np.ndarray) -> np.ndarray:
    """Products in the sums that it makes; those with 0 are exactly 0."""
    return np.asarray(np.count_nonzero(weight, axis=1))
