"""Sparse maps against the definition, by bisection on the threshold."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import anyseq as aq
from anyseq.errors import InvalidArgument
from anyseq.probability import ProbMap, prob_map_from_dict, prob_map_text, resolve_prob_map

ALPHA: list[tuple[ProbMap, float]] = [(aq.Sparsemax(), 2.0), (aq.Entmax15(), 1.5)]

rows = st.lists(st.floats(-20, 20), min_size=1, max_size=8).map(
    lambda values: torch.tensor(values, dtype=torch.float64)
)


def by_bisection(scores: torch.Tensor, alpha: float) -> torch.Tensor:
    z = (alpha - 1) * scores
    low, high = z.max() - 1, z.max()
    for _ in range(200):
        middle = (low + high) / 2
        total = ((z - middle).clamp(min=0) ** (1 / (alpha - 1))).sum()
        low, high = (middle, high) if total >= 1 else (low, middle)
    return (z - low).clamp(min=0) ** (1 / (alpha - 1))


@pytest.mark.parametrize(("prob_map", "alpha"), ALPHA)
@given(scores=rows)
def test_the_definition(prob_map: ProbMap, alpha: float, scores: torch.Tensor) -> None:
    torch.testing.assert_close(prob_map(scores), by_bisection(scores, alpha), rtol=0, atol=1e-9)


@pytest.mark.parametrize(("prob_map", "alpha"), ALPHA)
@given(scores=rows, pick=st.integers(0, 7))
def test_masked_scores_count_for_nothing(
    prob_map: ProbMap, alpha: float, scores: torch.Tensor, pick: int
) -> None:
    if len(scores) < 2:
        return
    masked = scores.clone()
    masked[pick % len(scores)] = -torch.inf
    kept = masked > -torch.inf
    weights = prob_map(masked)
    assert (weights[~kept] == 0).all()
    torch.testing.assert_close(weights[kept], prob_map(scores[kept]))


@pytest.mark.parametrize("prob_map", [aq.Sparsemax(), aq.Entmax15(), aq.TopK(2)])
def test_gradients(prob_map: ProbMap) -> None:
    scores = torch.randn(5, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert torch.autograd.gradcheck(prob_map, (scores.requires_grad_(),))


@pytest.mark.parametrize("prob_map", [aq.Sparsemax(), aq.Entmax15(), aq.TopK(2)])
def test_a_row_that_sees_nothing(prob_map: ProbMap) -> None:
    scores = torch.tensor([[-torch.inf] * 3, [0.0, 1.0, -torch.inf]], requires_grad=True)
    weights = prob_map(scores)
    assert weights[0].tolist() == [0, 0, 0]
    (weights * torch.arange(6.0).view(2, 3)).sum().backward()
    assert scores.grad is not None
    assert scores.grad[0].tolist() == [0, 0, 0]
    assert torch.isfinite(scores.grad).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("length", [1, 128, 2000])
@pytest.mark.parametrize("prob_map", [aq.Sparsemax(), aq.Entmax15()])
def test_weights_sum_to_one_in_every_precision(
    prob_map: ProbMap, length: int, dtype: torch.dtype
) -> None:
    rng = torch.Generator().manual_seed(0)
    scores = torch.randn(50, length, generator=rng).to(dtype)
    scores[:, 1:][torch.rand(50, length - 1, generator=rng) < 0.3] = -torch.inf
    weights = prob_map(scores)
    assert weights.dtype == dtype
    wide = prob_map(scores.double())
    tolerance = 4 * torch.finfo(dtype).eps
    torch.testing.assert_close(weights.double(), wide, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(wide.sum(-1), torch.ones(50, dtype=torch.float64), rtol=0, atol=1e-9)


@pytest.mark.parametrize("prob_map", [aq.Sparsemax(), aq.Entmax15()])
def test_nan_stays_nan_and_second_derivatives_are_finite(prob_map: ProbMap) -> None:
    assert prob_map(torch.tensor([[torch.nan, 0.0, 1.0]])).isnan().any()
    scores = torch.tensor([[0.0, 1.0, 1.2, 9.0], [0.0, 1.0, 1.2, 1.1]], dtype=torch.float64)
    assert torch.autograd.gradgradcheck(prob_map, (scores.requires_grad_(),))


@given(scores=rows, k=st.integers(1, 9))
def test_top_k(scores: torch.Tensor, k: int) -> None:
    kept = scores >= scores.sort(descending=True).values[min(k, len(scores)) - 1]
    expected = torch.zeros_like(scores)
    expected[kept] = torch.softmax(scores[kept], 0)
    torch.testing.assert_close(aq.TopK(k)(scores), expected)


def test_attention_with_sparse_weights() -> None:
    q = torch.randn(1, 2, 5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    scores = q @ q.transpose(-1, -2) * 3**-0.5
    for prob_map in (aq.Sparsemax(), aq.Entmax15(), aq.TopK(2)):
        torch.testing.assert_close(aq.attention(q, q, q, prob_map=prob_map), prob_map(scores) @ q)


def test_names() -> None:
    assert resolve_prob_map("sparsemax") == aq.Sparsemax()
    assert resolve_prob_map("entmax15") == aq.Entmax15()
    for prob_map in (aq.Sparsemax(), aq.TopK(3)):
        assert prob_map_from_dict(prob_map.to_dict()) == prob_map
        assert aq.Design.from_dict(aq.Design(3, prob_map=prob_map).to_dict()).prob_map == prob_map
    assert resolve_prob_map("topk(3)") == aq.TopK(3)
    assert prob_map_text(aq.TopK(3)) == "topk(3)"
    with pytest.raises(InvalidArgument, match=r"an object such as TopK\(8\)"):
        resolve_prob_map("topk")
    with pytest.raises(InvalidArgument, match="k=0"):
        aq.TopK(0)
