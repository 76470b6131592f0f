"""What a network of method "sum" computes, in fractions: a mean over grids.

    T_i(X) = Σ_s w_s f_i(centres of the cells of X in grid s).

b_s of a token is what its entries mark of grid s, 1 on a ramp between two cells, falling to 0
within a margin. Token i allows grid s ReLU(1 - b_s - 2 Σ_j b_s(j)), b_s its own, and one grid after
the other takes of 1 what is left and allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from anyseq.construct.verifiers.claim import Claim
from anyseq.construct.verifiers.verify_multisets import outputs_at
from anyseq.construct.verifiers.verify_windows import Windows


@dataclass(frozen=True)
class Grids:
    """What the network computes. marks: windows by grid, then by feature."""

    claim: Claim
    marks: list[list[Windows]]
    values: np.ndarray

    @property
    def hard(self) -> np.ndarray:
        """Entries on ramps, and on both margins."""
        marks = [mark for grid in self.marks for mark in grid]
        places = [(mark.low + part * mark.ramp) for mark in marks for part in (-0.8, 0.4, 1.9)]
        return np.concatenate(places)

    def exact(self, x: np.ndarray) -> list[list[Fraction]]:
        """Σ_s w_s f(centres in grid s) at x (tokens, features)."""
        cells = self.claim.steps**self.claim.features
        places = [self.claim.steps**feature for feature in range(self.claim.features)]
        left = [Fraction(1)] * len(x)
        total = np.full(self.values.shape[1:], Fraction(0), dtype=object)
        for marks in self.marks:
            bad = [
                sum((_marked(m, e) for m, e in zip(marks, token, strict=True)), Fraction(0))
                for token in x.tolist()
            ]
            whole = 2 * sum(bad, Fraction(0))
            weights = [
                min(r, max(1 - b - whole, Fraction(0))) for r, b in zip(left, bad, strict=True)
            ]
            left = [r - w for r, w in zip(left, weights, strict=True)]
            found = np.stack(
                [np.searchsorted(m.high, x[:, k], side="right") for k, m in enumerate(marks)],
                axis=1,
            )
            outputs = outputs_at(self.values, (found @ places)[None], cells)[0]
            total += np.vectorize(Fraction, otypes=[object])(outputs) * np.array(weights)[:, None]
        return [list(outputs) for outputs in total]


def _marked(mark: Windows, entry: float) -> Fraction:
    """What an entry of x adds to b_s."""
    margin, at, total = mark.ramp, Fraction(entry), Fraction(0)
    near = (mark.low - margin < entry) & (entry < mark.high + margin)
    for low, high in zip(mark.low[near], mark.high[near], strict=True):
        outside = max(Fraction(low) - at, at - Fraction(high), Fraction(0))
        total += 1 - Fraction(mark.slope) * outside
    return total
