"""Layers of hardmax and top-k whose scores come too near to each other are noticed."""

from __future__ import annotations

import pytest
import torch

from anyseq.construct.gathering.lead import LEAST_LEAD, Lead
from anyseq.probability import Hardmax, ProbMap, TopK


@pytest.mark.parametrize("base", [Hardmax(), TopK(2)])
def test_near_scores_are_not_safe_and_ties_are(base: ProbMap) -> None:
    k = base.k if isinstance(base, TopK) else 1
    apart = torch.tensor([[3.0, 2.0, 1.0, 0.0], [5.0, 5.0, 5.0, -torch.inf]]).double()
    near = apart.clone()
    near[0, k] = near[0, k - 1] - LEAST_LEAD  # in units of the largest score, 5
    for scores, safe in ((apart, True), (near, False)):
        lead = Lead(base)
        assert torch.equal(lead(scores), base(scores))
        assert lead.safe == safe
    everything = Lead(TopK(4))
    everything(near)
    assert everything.safe
