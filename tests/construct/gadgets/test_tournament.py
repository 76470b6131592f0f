import math

import pytest
import torch

from anyseq.construct.gadgets import tournament


@pytest.mark.parametrize("axes", range(1, 10))
def test_highest_and_lowest(axes: int) -> None:
    plan = tournament(axes)
    assert len(plan.rounds) == math.ceil(math.log2(axes))
    rng = torch.Generator().manual_seed(axes)
    numbers = torch.randint(-5, 6, (300, axes), generator=rng).double()
    state = torch.cat([numbers, torch.zeros(300, plan.scratch, dtype=torch.float64)], dim=1)
    filled = axes
    for forms in plan.rounds:
        units = torch.relu(state @ forms.T)
        state[:, filled : filled + len(forms)] = units
        filled += len(forms)
    assert filled == axes + plan.scratch
    assert torch.equal(state @ plan.highest, numbers.amax(1))
    assert torch.equal(state @ plan.lowest, numbers.amin(1))
    assert (state[:, axes:] >= 0).all()
