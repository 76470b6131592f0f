"""Memory that nobody wrote, and numbers that are none, never reach a result in silence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import anyseq as aq
from anyseq.errors import InvalidArgument
from ops.cases import CALLS, assert_same_result, inputs, random, run, table


@pytest.fixture
def empty_is_nan() -> Iterator[None]:
    """torch.empty is filled with NaN, as deterministic algorithms do it."""
    settings: Any = torch.utils.deterministic
    before = torch.are_deterministic_algorithms_enabled(), settings.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    settings.fill_uninitialized_memory = True
    try:
        assert bool(torch.empty(3).isnan().all())
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        settings.fill_uninitialized_memory = before[1]


@pytest.mark.usefixtures("empty_is_nan")
@pytest.mark.parametrize("name", CALLS)
def test_uninitialised_memory_stays_out(name: str) -> None:
    call = CALLS[name](129)
    refused = aq.attention_plan(*call.sides(), **call.arguments).refused
    eps = torch.finfo(torch.float64).eps
    for backend in ("native", "tiles", "sdpa"):
        if backend not in refused:
            lse = backend not in ("sdpa",)
            got, expected = run(call, backend, lse), run(call, "reference", lse)
            assert_same_result(got, expected, 266, eps, backend)


@pytest.mark.usefixtures("empty_is_nan")
@pytest.mark.parametrize("backend", ["native", "tiles"])
def test_dropout_on_uninitialised_memory(backend: str) -> None:
    q, k, v = (side.requires_grad_() for side in inputs(129))
    out = aq.attention(q, k, v, pattern=aq.Star(3), gain=table(129), dropout_p=0.5, backend=backend)
    gradients = torch.autograd.grad(out.sum(), (q, k, v))
    assert all(bool(x.isfinite().all()) for x in (out, *gradients))


def spoilt(name: str, value: float) -> dict[str, Any]:
    """q, k, v, and a bias or a gain if that is meant, with one bad entry."""
    given = dict(zip("qkv", inputs(6), strict=True))
    if name not in given:
        given[name] = random(2, 6, 6, seed=4)
    given[name][..., 3, 2] = value
    return given


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name in "qkv" for value in (torch.nan, torch.inf, -torch.inf)]
    + [("bias", torch.nan), ("bias", torch.inf), ("gain", torch.nan)],
)
@pytest.mark.parametrize("backend", ["reference", "native", "tiles", "sdpa"])
def test_what_is_no_number_is_named(backend: str, name: str, value: float) -> None:
    """Every key is masked for somebody, so that an inf in v meets a weight of 0, too."""
    expected = f"{name} holds {'NaN' if value != value else 'inf'} at"
    if name == "gain" and backend == "sdpa":
        expected = "no gain"
    with pytest.raises(InvalidArgument, match=expected):
        aq.attention(**spoilt(name, value), pattern=aq.Window(1), backend=backend)


@pytest.mark.parametrize("backend", ["reference", "native", "tiles"])
def test_infinite_terms_that_have_a_meaning(backend: str) -> None:
    """A bias of -inf is a mask, and a weight times inf is inf."""
    out = aq.attention(**spoilt("bias", -torch.inf), pattern=aq.Window(1), backend=backend)
    assert bool(out.isfinite().all())
    out = aq.attention(**spoilt("gain", torch.inf), pattern=aq.Window(1), backend=backend)
    assert bool(out[:, :, 3].isinf().all())


@pytest.mark.parametrize("backend", ["native", "tiles", "reference", "sdpa"])
def test_scores_that_overflow_are_told_of(backend: str) -> None:
    q, k, v = (side.float() for side in inputs(6))
    with pytest.raises(InvalidArgument, match=r"the scores of query .* overflow torch\.float32"):
        aq.attention(q * 1e30, k * 1e30, v, pattern=aq.Window(1), backend=backend)


def test_what_no_tile_touches_cannot_spoil_it() -> None:
    """Only the tiles know that nobody looks there; the formula multiplies by 0."""
    q, k, v = inputs(300)
    pattern = aq.Blocks(20) & ~aq.Global((150,))
    expected = aq.attention(q, k, v, pattern=pattern, backend="reference")
    v[:, :, 299] = torch.nan
    rows = slice(0, 280)
    got = aq.attention(q[:, :, rows], k, v, pattern=pattern, backend="native")
    torch.testing.assert_close(got, expected[:, :, rows], rtol=0, atol=1e-12)
    with pytest.raises(InvalidArgument, match=r"v holds NaN at \(0, 0, 299, 0\)"):
        aq.attention(q[:, :, rows], k, v, pattern=pattern, backend="reference")


@pytest.mark.parametrize("backend", ["native", "tiles", "reference", "sdpa"])
@pytest.mark.parametrize("low", [-1e9, -1e20, torch.finfo(torch.float32).min])
def test_very_low_biases_mask_too(backend: str, low: float) -> None:
    """What people write instead of -inf; the key on the diagonal stays."""
    q, k, v = (side.float() for side in inputs(40))
    forbidden = (random(40, 40) > 0) & ~torch.eye(40, dtype=torch.bool)
    bias = torch.zeros(40, 40).masked_fill(forbidden, low)
    got = aq.attention(q, k, v, bias=bias, backend=backend)
    expected = aq.attention(q, k, v, pattern=~forbidden, backend="reference")
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-5)
