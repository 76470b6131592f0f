import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anyseq.errors import InvalidArgument
from anyseq.probability import Hardmax, ProbMap, Softmax, prob_map_from_dict, resolve_prob_map

scores = st.lists(st.integers(-3, 3), min_size=1, max_size=5).map(
    lambda values: torch.tensor(values, dtype=torch.float64)
)


@given(scores)
def test_hardmax_is_the_limit_of_softmax(given_scores: torch.Tensor) -> None:
    torch.testing.assert_close(Hardmax()(given_scores), Softmax()(given_scores * 1024))


@pytest.mark.parametrize("prob_map", [Softmax(), Hardmax()])
def test_a_row_that_sees_nothing_is_zero_and_passes_no_gradient(prob_map: ProbMap) -> None:
    row = torch.tensor([[-torch.inf, -torch.inf], [0.0, 1.0]], requires_grad=True)
    weights = prob_map(row)
    assert weights[0].tolist() == [0, 0]
    assert float(weights[1].detach().sum()) == pytest.approx(1)
    if weights.requires_grad:
        (weights * torch.arange(4.0).view(2, 2)).sum().backward()
        assert row.grad is not None
        assert row.grad[0].tolist() == [0, 0]
        assert torch.isfinite(row.grad).all()


def test_names_and_dictionaries() -> None:
    assert resolve_prob_map("softmax") == Softmax()
    assert resolve_prob_map(Hardmax()) == Hardmax()
    assert prob_map_from_dict(Hardmax().to_dict()) == Hardmax()
    with pytest.raises(InvalidArgument, match="prob_map='max'"):
        resolve_prob_map("max")
    with pytest.raises(InvalidArgument, match="kind='max'"):
        prob_map_from_dict({"kind": "max"})
    with pytest.raises(InvalidArgument, match="cannot be read"):
        prob_map_from_dict({"kind": "softmax", "heat": 2})


def test_hardmax_hides_no_nan() -> None:
    scores = torch.tensor([[0.0, torch.nan, 1.0], [0.0, 2.0, 1.0]])
    weights = Hardmax()(scores)
    assert weights[0].isnan().all()
    assert weights[1].tolist() == [0, 1, 0]
    assert Hardmax()(torch.zeros(2, 0)).shape == (2, 0)
