"""Gradients of the tiles: numerically, twice, for some inputs only, and with dropout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import anyseq as aq
from anyseq.errors import InvalidArgument
from ops.cases import coin, inputs, random

TILES = ("native", "tiles")
Outputs = Callable[..., tuple[torch.Tensor, torch.Tensor]]


def outputs(backend: str, toeplitz: bool, **arguments: Any) -> Outputs:
    """(q, k, v, bias, gain) -> out and lse, whose -inf are made 0 for finite differences."""
    wrap = aq.Toeplitz if toeplitz else lambda x: x

    def run(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor, gain: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        out, lse = aq.attention(
            q, k, v, bias=wrap(bias), gain=wrap(gain), backend=backend, return_lse=True, **arguments
        )
        return out, lse.masked_fill(lse == -torch.inf, 0.0)

    return run


def leaves(n: int, toeplitz: bool) -> list[torch.Tensor]:
    shapes = [(2, 2 * n - 1), (1, 2 * n - 1)] if toeplitz else [(1, 2, n, n), (1, 1, 1, n)]
    sides = [side[:1] for side in inputs(n)]
    sides += [random(*shape, seed=4 + at) for at, shape in enumerate(shapes)]
    return [side.clone().requires_grad_() for side in sides]


@pytest.mark.parametrize("pattern", [aq.Star(1), ~aq.Causal()], ids=str)
@pytest.mark.parametrize("toeplitz", [True, False])
@pytest.mark.parametrize("backend", TILES)
def test_numerical_gradients(backend: str, toeplitz: bool, pattern: aq.Pattern) -> None:
    run = outputs(backend, toeplitz, pattern=pattern)
    assert gradcheck(run, leaves(4, toeplitz))
    assert gradgradcheck(run, leaves(4, toeplitz), fast_mode=True)


@pytest.mark.parametrize("wanted", ["q", "k", "v", "bias", "gain"])
@pytest.mark.parametrize("backend", TILES)
def test_gradients_of_some_inputs_only(backend: str, wanted: str) -> None:
    """Once and twice."""
    names = ("q", "k", "v", "bias", "gain")
    given = {
        name: leaf.detach().requires_grad_(name == wanted)
        for name, leaf in zip(names, leaves(6, True), strict=True)
    }
    everything = leaves(6, True)
    run = outputs(backend, True, pattern=aq.Window(2))
    out, lse = run(*given.values())
    expected_out, expected_lse = run(*everything)
    (first,) = torch.autograd.grad((out**2).sum() + lse.sum(), given[wanted], create_graph=True)
    (expected,) = torch.autograd.grad(
        (expected_out**2).sum() + expected_lse.sum(),
        everything[names.index(wanted)],
        create_graph=True,
    )
    torch.testing.assert_close(first, expected)
    (second,) = torch.autograd.grad((first**2).sum(), given[wanted])
    (expected,) = torch.autograd.grad((expected**2).sum(), everything[names.index(wanted)])
    torch.testing.assert_close(second, expected)


@pytest.mark.parametrize("backend", TILES)
def test_only_one_output_is_used(backend: str) -> None:
    for use in (0, 1):
        found = []
        for name in (backend, "reference"):
            q, k, v = (side.requires_grad_() for side in inputs(40))
            outputs = aq.attention(q, k, v, pattern=aq.Fixed(7), backend=name, return_lse=True)
            outputs[use].sum().backward()
            zero = torch.zeros_like(v)
            found.append([q.grad, k.grad, zero if v.grad is None else v.grad])
        torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("backend", TILES)
def test_any_strides(backend: str) -> None:
    """Transposed and expanded inputs, masks and gradients of outputs."""
    q = random(2, 70, 3, 4, seed=1).transpose(1, 2).requires_grad_()
    k = random(2, 1, 4, 70, seed=2).transpose(2, 3).expand(2, 3, 70, 4).requires_grad_()
    v = random(1, 3, 70, 8, seed=3)[..., ::2].expand(2, 3, 70, 4).requires_grad_()
    bias = random(3, 70, 70, seed=4).transpose(1, 2).requires_grad_()
    gain = random(70, 1, seed=5).expand(70, 70).requires_grad_()
    tables = random(141, 3, seed=6).T.requires_grad_()
    key_mask = coin(70, 2).T
    weight = random(4).expand(2, 3, 70, 4)
    for terms in ({"bias": bias, "gain": gain}, {"bias": aq.Toeplitz(tables)}):
        wanted = [q, k, v, *([bias, gain] if "gain" in terms else [tables])]
        found = []
        for name in (backend, "reference"):
            out = aq.attention(
                q, k, v, pattern=aq.Strided(6), key_mask=key_mask, backend=name, **terms
            )
            found.append([out, *torch.autograd.grad(out, wanted, weight)])
        torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-11)


@pytest.mark.parametrize("backend", TILES)
def test_two_runs_are_equal_bit_by_bit(backend: str) -> None:
    found = []
    for _ in range(2):
        q, k, v, bias, gain = leaves(150, True)
        out, lse = outputs(backend, True, pattern=aq.BigBird(8))(q, k, v, bias, gain)
        (out.square().sum() + lse.sum()).backward()
        found.append([out, lse, *(leaf.grad for leaf in (q, k, v, bias, gain))])
    for one, other in zip(*found, strict=True):
        assert one is not None
        assert other is not None
        assert torch.equal(one, other)


@pytest.mark.parametrize("backend", TILES)
def test_no_grad(backend: str) -> None:
    q, k, v = (side.requires_grad_() for side in inputs(9))
    with torch.no_grad():
        quiet = aq.attention(q, k, v, pattern=aq.Window(2), backend=backend)
    assert not quiet.requires_grad
    assert torch.equal(quiet, aq.attention(q, k, v, pattern=aq.Window(2), backend=backend))


def dropped(backend: str, seed: int, v: torch.Tensor, **arguments: Any) -> torch.Tensor:
    q, k, _ = inputs(140)
    torch.manual_seed(seed)
    out: torch.Tensor = aq.attention(q, k, v, dropout_p=0.4, backend=backend, **arguments)
    return out


@pytest.mark.parametrize("backend", TILES)
def test_dropout_follows_the_seed(backend: str) -> None:
    v = inputs(140)[2]
    first = dropped(backend, 1, v, pattern=aq.Star(5))
    assert torch.equal(first, dropped(backend, 1, v, pattern=aq.Star(5)))
    assert not torch.equal(first, dropped(backend, 2, v, pattern=aq.Star(5)))


@pytest.mark.parametrize("pattern", [aq.Full(), aq.Star(5), aq.Strided(6), aq.BigBird(8)], ids=str)
@pytest.mark.parametrize("backend", TILES)
def test_dropout_drops_the_same_weights_backward(backend: str, pattern: aq.Pattern) -> None:
    """out = A v for the A of that seed, so <g, A w> = <A^T g, w> for every w."""
    v, w = inputs(140)[2].requires_grad_(), random(2, 2, 140, 4, seed=9)
    g = random(2, 2, 140, 4, seed=10)
    (back,) = torch.autograd.grad(dropped(backend, 3, v, pattern=pattern), v, g)
    forth = dropped(backend, 3, w, pattern=pattern)
    torch.testing.assert_close((g * forth).sum(), (back * w).sum())


@pytest.mark.parametrize("backend", TILES)
def test_numerical_gradients_with_dropout(backend: str) -> None:
    def run(*given: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        torch.manual_seed(5)
        return outputs(backend, True, pattern=aq.Star(1), dropout_p=0.3)(*given)

    assert gradcheck(run, leaves(5, True))


@pytest.mark.parametrize("backend", TILES)
def test_dropout_keeps_the_mean(backend: str) -> None:
    """Weights 1/n, of which a share p is dropped: the mean of n² sums of n terms."""
    n, p = 600, 0.3
    q = k = torch.zeros(1, 1, n, 1, dtype=torch.float64)
    out = aq.attention(q, k, torch.ones_like(q), dropout_p=p, backend=backend)
    deviation = (p / (1 - p) / n) ** 0.5  # of one row
    assert abs(float(out.mean()) - 1) < 5 * deviation / n**0.5
    assert float(out.std()) == pytest.approx(deviation, rel=0.2)


def test_gradients_of_gradients_with_dropout_are_refused() -> None:
    q, k, v = (side.requires_grad_() for side in inputs(5))
    out = aq.attention(q, k, v, dropout_p=0.5, backend="tiles")
    with pytest.raises(InvalidArgument, match="gradients of gradients need backend='reference'"):
        torch.autograd.grad(out.sum(), q, create_graph=True)
