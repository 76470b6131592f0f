"""Short sequences with a gain take a way of their own, which must be the formula."""

from typing import Any

import pytest
import torch

import anyseq as aq
from anyseq.ops import short
from anyseq.ops.checks import checked

RNG = torch.Generator().manual_seed(0)


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=RNG, dtype=torch.float64)


def forbidden(*rows: int) -> torch.Tensor:
    """A bias in which these rows see nothing."""
    bias = drawn(2, 3, 5, 4)
    bias[:, 1, list(rows)] = -torch.inf
    return bias


TERMS: dict[str, dict[str, Any]] = {
    "gain": {"gain": drawn(3, 5, 4)},
    "gain of a table": {"gain": aq.Toeplitz(drawn(3, 9))},
    "one gain for all": {"gain": drawn(1, 1, 5, 1), "bias": drawn(5, 4)},
    "tables": {"gain": aq.Toeplitz(drawn(3, 9)), "bias": aq.Toeplitz(drawn(3, 9))},
    "every row its own": {"gain": drawn(2, 3, 5, 4), "bias": drawn(2, 3, 5, 4)},
    "empty rows": {"gain": drawn(3, 5, 4), "bias": forbidden(0, 3)},
    "a table that forbids": {
        "gain": drawn(3, 5, 4),
        "bias": aq.Toeplitz(torch.full((3, 9), -torch.inf).double()),
    },
}


def leaves(terms: dict[str, Any]) -> tuple[list[torch.Tensor], dict[str, Any]]:
    """All that has a gradient, and the terms made of it."""
    sides = [drawn(2, 3, 5, 6), drawn(2, 3, 4, 6), drawn(2, 3, 4, 7)]
    values = [t.coefficients if isinstance(t, aq.Toeplitz) else t for t in terms.values()]
    followed = [one.clone().requires_grad_() for one in (*sides, *values)]
    made = {
        name: aq.Toeplitz(leaf) if isinstance(terms[name], aq.Toeplitz) else leaf
        for name, leaf in zip(terms, followed[3:], strict=True)
    }
    return followed, made


@pytest.mark.parametrize("name", TERMS)
def test_it_is_the_formula_and_its_gradients(name: str) -> None:
    followed, terms = leaves(TERMS[name])
    q, k, v = followed[:3]
    assert short.serves(checked(q, k, v, **terms))
    weight = drawn(2, 3, 5, 7)
    found = []
    for backend in ("auto", "reference"):
        out = aq.attention(q, k, v, **terms, backend=backend)
        found.append([out, *torch.autograd.grad((out * weight).sum(), followed)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
        assert one.isfinite().all()


@pytest.mark.parametrize(
    "more",
    [
        {"pattern": aq.Window(1)},
        {"is_causal": True},
        {"key_mask": torch.ones(2, 4, dtype=torch.bool)},
        {"prob_map": "sparsemax"},
        {"return_lse": True},
        {"dropout_p": 0.5},
        {"score_mod": lambda score, b, h, i, j: score},
    ],
    ids=lambda more: next(iter(more)),
)
def test_what_it_does_not_serve_is_left_to_others(more: dict[str, Any]) -> None:
    (q, k, v, _), terms = leaves(TERMS["gain"])
    assert not short.serves(checked(q, k, v, **terms, **more))


def test_nan_is_named_here_too() -> None:
    (q, k, v, _), terms = leaves(TERMS["gain"])
    wrong = v.detach()
    wrong[0, 0, 0, 3] = torch.nan
    with pytest.raises(aq.errors.InvalidArgument, match="v holds NaN at \\(0, 0, 0, 3\\)"):
        aq.attention(q, k, wrong, **terms)


def test_scores_that_overflow_in_a_whole_row_leave_it_empty() -> None:
    q = torch.full((1, 1, 2, 1), 1e4, dtype=torch.float16)
    v, gain = torch.ones(1, 1, 2, 1, dtype=torch.float16), torch.ones(1, 1, 2, 2).half()
    out = aq.attention(q, -q, v, gain=gain, scale=1.0)
    assert (out == 0).all()
