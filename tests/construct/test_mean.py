"""norm="mean": the mean absolute error over all inputs and entries, for every method."""

import pytest
import torch

import anyseq as aq
from anyseq.construct.request.error import combine


@pytest.mark.parametrize("method", ["gather", "yun"])
def test_a_proved_mean_error_is_the_l1_error_per_entry(method: str) -> None:
    """d_1 sums over the n·d_out entries, the mean absolute error averages."""
    design, entries = aq.Design(3), 6
    mean = aq.plan(design, 1, 0.2, lipschitz=1.0, norm="mean", out_features=2)
    total = aq.plan(design, 1, 0.2 * entries, lipschitz=1.0, norm="lp", p=1, out_features=2)
    one, other = mean.choose(method), total.choose(method)
    assert one.shape == other.shape
    assert combine(one.terms, "mean", 1.0) * entries == pytest.approx(
        combine(other.terms, "lp", 1.0)
    )
    assert "error <= 0.2 in mean absolute error" in str(mean)


def test_the_mean_that_is_seen_lies_below_the_mean_that_is_proved() -> None:
    f = aq.functions["times-max"]
    result = aq.approximate(f, aq.Design(2), features=1, tol=0.1, norm="mean", lipschitz=2.0)
    x = torch.rand(20_000, 2, 1, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    measured = float((f(x) - result(x)).abs().mean())
    assert result.error.upper is not None
    assert 0 < result.error.lower <= measured <= result.error.upper <= 0.1
    assert result.error.lower > measured / 2
    assert result.error.p == 1.0
    assert "mean absolute error, tolerance 0.1" in " ".join(repr(result).split())


def test_a_mean_has_no_exponent() -> None:
    """p is that of "lp" alone."""
    plans = [aq.plan(aq.Design(2), 1, 0.1, lipschitz=1.0, norm="mean", p=p) for p in (1, 5)]
    assert plans[0].rows() == plans[1].rows()


@pytest.mark.parametrize("method", ["gather", "yun"])
@pytest.mark.parametrize("curvature", [None, 1.0])
def test_certificates_of_means_hold(method: str, curvature: float | None) -> None:
    result = aq.approximate(
        aq.functions["neighbours"],
        aq.Design(2),
        features=1,
        tol=0.1,
        norm="mean",
        method=method,
        lipschitz=2.0,
        curvature=curvature,
    )
    assert result.certificate is not None
    assert result.certificate.verify()
