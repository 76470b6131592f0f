"""Short attention in one step: gradients, chunks of the batch, and who must not meet it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.autograd import forward_ad, gradcheck, gradgradcheck

import anyseq as aq
from anyseq.ops import short
from ops.cases import inputs, random, with_minus_infinity

NAMES = ("q", "k", "v", "bias", "gain")


def given(n: int, toeplitz: bool) -> list[torch.Tensor]:
    shapes = [(2, 2 * n - 1), (1, 2 * n + 3)] if toeplitz else [(2, 1, n, n), (1, 2, 1, n)]
    sides = [*inputs(n), *(random(*shape, seed=4 + at) for at, shape in enumerate(shapes))]
    return [side.clone().requires_grad_() for side in sides]


def attend(*sides: torch.Tensor, backend: str = "short", **arguments: Any) -> torch.Tensor:
    q, k, v, bias, gain = sides
    wrap = aq.Toeplitz if bias.ndim == 2 else lambda x: x
    out: torch.Tensor = aq.attention(
        q, k, v, bias=wrap(bias), gain=wrap(gain), backend=backend, **arguments
    )
    return out


@pytest.mark.parametrize("pattern", [None, aq.Star(1), ~aq.Causal()], ids=str)
@pytest.mark.parametrize("toeplitz", [True, False])
def test_numerical_gradients(toeplitz: bool, pattern: aq.Pattern | None) -> None:
    """~Causal has a row that sees nothing."""

    def run(*sides: torch.Tensor) -> torch.Tensor:
        return attend(*sides, pattern=pattern)

    assert gradcheck(run, given(4, toeplitz))
    assert gradgradcheck(run, given(4, toeplitz), fast_mode=True)


def test_gradients_twice_where_a_bias_hides_a_row() -> None:
    q, k, v = (side.requires_grad_() for side in inputs(5))
    bias = with_minus_infinity(5, row=True)
    found = []
    for backend in ("short", "reference"):
        out = aq.attention(q, k, v, bias=bias, backend=backend)
        (first,) = torch.autograd.grad(out.square().sum(), q, create_graph=True)
        found.append([first, *torch.autograd.grad(first.square().sum(), (q, k, v))])
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("wanted", NAMES)
def test_gradients_of_some_inputs_only(wanted: str) -> None:
    everything = given(6, True)
    some = [
        side.detach().requires_grad_(name == wanted)
        for name, side in zip(NAMES, everything, strict=True)
    ]
    at = NAMES.index(wanted)
    (found,) = torch.autograd.grad(attend(*some).square().sum(), some[at])
    out = attend(*everything, backend="reference")
    (expected,) = torch.autograd.grad(out.square().sum(), everything[at])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("toeplitz", [True, False])
def test_the_batch_in_chunks(rows: int, toeplitz: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five rows of the batch, some at a time; the last chunk is smaller."""
    monkeypatch.setattr(short, "_CACHED", rows * 2 * 7 * 9)
    q, k, v = inputs(7, 9, batch=5)
    terms = [random(2, 21, seed=4), random(2, 21, seed=5)]
    if not toeplitz:
        terms = [random(5, 2, 7, 9, seed=4), random(5, 1, 7, 1, seed=5)]
    sides = [side.requires_grad_() for side in (q, k, v, *terms)]
    found = []
    for backend in ("short", "reference"):
        out = attend(*sides, backend=backend, q_offset=2)
        found.append([out, *torch.autograd.grad(out.square().sum(), sides)])
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # jvp's own
def test_transforms_meet_operators_they_know() -> None:
    """auto takes the formula inside torch.func and with dual numbers, with the same result."""
    q, k, v, _, table = (side.detach() for side in given(6, True))
    change = random(*q.shape, seed=9)

    def run(q: torch.Tensor) -> torch.Tensor:
        return aq.attention(q, k, v, gain=aq.Toeplitz(table))

    along = torch.func.jvp(run, (q,), (change,))[1]
    with forward_ad.dual_level():
        dual = forward_ad.unpack_dual(run(forward_ad.make_dual(q, change))).tangent
    step = 1e-6
    expected = (run(q + step * change) - run(q - step * change)) / (2 * step)
    torch.testing.assert_close(along, expected, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(dual, expected, rtol=1e-6, atol=1e-8)
