"""How far ahead a score must be to get all the weight, exactly (Yun et al. 2020b, Assumption 2).

    softmax, top-k   exp(-x) must underflow to 0: ZERO_WEIGHT_GAP. The scores that top-k leaves out
                     weigh 0 anyway
    sparsemax        with a lead of 1 or more the threshold is one below the top: weights 1, 0
    entmax15         the same for half the scores: a lead of 2
    hardmax          any lead

A score is the product of a query and a key. Keys are ids, exact, at least a grid step apart and
below 2^50 steps, so rounding, 2^-53 of each score, takes at most a quarter of a lead: the numbers
below leave that much room. They are powers of two, so that scaling by them never rounds.
"""

from __future__ import annotations

from anyseq.base import ZERO_WEIGHT_GAP
from anyseq.errors import CannotApproximate
from anyseq.probability import Entmax15, Hardmax, ProbMap, Softmax, Sparsemax, TopK

_GAPS: dict[type[ProbMap], float] = {
    Softmax: ZERO_WEIGHT_GAP,
    TopK: ZERO_WEIGHT_GAP,
    Sparsemax: 2.0,
    Entmax15: 4.0,
    Hardmax: 1.0,
}


def deciding_gap(prob_map: ProbMap) -> float:
    """A lead that gives the best score weight 1 and all others weight 0, to the bit."""
    gap = _GAPS.get(type(prob_map))
    if gap is None:
        raise CannotApproximate(
            "it needs a probability map that can put all its weight on one score (Assumption 2), "
            f"which is not known for {type(prob_map).__name__}"
        )
    return gap
