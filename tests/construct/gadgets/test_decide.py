"""The gap at which a probability map decides: enough, and no map that is not known."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import anyseq as aq
from anyseq.construct.gadgets import deciding_gap
from anyseq.errors import CannotApproximate
from anyseq.probability import Entmax15, Hardmax, ProbMap, Softmax, Sparsemax, TopK

MAPS = [Softmax(), Sparsemax(), Entmax15(), Hardmax(), TopK(1), TopK(3)]


@pytest.mark.parametrize("prob_map", MAPS, ids=str)
@given(st.lists(st.integers(0, 2**49), min_size=1, max_size=6, unique=True), st.integers(1, 2**49))
def test_three_quarters_of_the_gap_give_all_the_weight(
    prob_map: ProbMap, keys: list[int], query: int
) -> None:
    """Scores are query·key in units of the gap, rounded; keys are whole numbers below 2^50."""
    scores = torch.tensor(keys, dtype=torch.float64) * query * (0.75 * deciding_gap(prob_map))
    weights = prob_map(scores)
    expected = torch.zeros(len(keys), dtype=torch.float64)
    expected[max(range(len(keys)), key=keys.__getitem__)] = 1.0
    assert torch.equal(weights, expected)


@dataclass(frozen=True)
class Average(ProbMap):
    """Breaks Assumption 2: equal weights, whatever the scores."""

    def __call__(self, scores: torch.Tensor) -> torch.Tensor:
        seen = (scores > -torch.inf).to(scores.dtype)
        return seen / seen.sum(-1, keepdim=True)


def test_a_map_that_never_decides_is_refused() -> None:
    with pytest.raises(CannotApproximate, match=r"Assumption 2.* not known for Average"):
        deciding_gap(Average())
    plan = aq.plan(aq.Design(2, prob_map=Average()), 1, 0.5, lipschitz=1.0, norm="lp")
    assert "Assumption 2" in plan.refused["yun"]
