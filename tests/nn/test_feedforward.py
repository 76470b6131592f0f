"""The feed-forward half: in one step where it is large, against operators in float64."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.nn.functional import linear
from torch.utils.checkpoint import checkpoint

import anyseq as aq
from anyseq.nn import feedforward
from ops.cases import random

DIM, HIDDEN = 3, 8
Tensors = list[torch.Tensor]


@pytest.fixture(autouse=True)
def _one_step_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feedforward, "_LARGE", 0)


def given(*leading: int) -> Tensors:
    """x and the four weights."""
    shapes = [(*leading, DIM), (HIDDEN, DIM), (HIDDEN,), (DIM, HIDDEN), (DIM,)]
    return [random(*shape, seed=at).requires_grad_() for at, shape in enumerate(shapes)]


def formula(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
    up, up_bias, down, down_bias = weights
    return linear(linear(x, up, up_bias).relu(), down, down_bias)


def is_one_step(y: torch.Tensor) -> bool:
    """Seen through the view of its rows."""
    steps = () if y.grad_fn is None else y.grad_fn.next_functions
    return any(step is not None and step.name() == "_StepBackward" for step, _ in steps)


def close(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("leading", [(), (5,), (2, 5), (2, 3, 4), (0, 5)], ids=str)
def test_output_and_gradients_are_those_of_operators(leading: tuple[int, ...]) -> None:
    parts = given(*leading)
    own, expected = feedforward.feed_forward(*parts), formula(*parts)
    assert is_one_step(own)
    close(own, expected)
    close(*(torch.autograd.grad(y.square().sum(), parts) for y in (own, expected)))


def test_x_and_gradients_in_any_order_of_memory() -> None:
    parts = given(4, 5)
    x = parts[0].detach().transpose(0, 1).requires_grad_()
    parts = [x, *parts[1:]]
    weights = random(5, 4, DIM, seed=9).transpose(0, 1).contiguous().transpose(0, 1)
    ys = feedforward.feed_forward(*parts), formula(*parts)
    close(*(torch.autograd.grad((y * weights).sum(), parts) for y in ys))


@pytest.mark.parametrize("learned", [set(some) for some in combinations(range(5), 4)], ids=str)
def test_only_what_learns_gets_a_gradient(learned: set[int]) -> None:
    """One step where all weights learn: otherwise operators keep less."""
    parts = [part.detach().requires_grad_(at in learned) for at, part in enumerate(given(2, 5))]
    y = feedforward.feed_forward(*parts)
    assert is_one_step(y) == (learned == {1, 2, 3, 4})
    y.square().sum().backward()
    assert {at for at, part in enumerate(parts) if part.grad is not None} == learned


def test_the_output_may_be_changed_in_place() -> None:
    def gradients(f: Callable[..., torch.Tensor]) -> Any:
        parts = given(2, 5)
        y = f(*parts)
        y += parts[0]
        return torch.autograd.grad(y.square().sum(), parts)

    close(gradients(feedforward.feed_forward), gradients(formula))


def test_a_frozen_front_made_in_inference_mode() -> None:
    parts = given(2, 5)
    with torch.inference_mode():
        x = parts[0] * 1.0
    frozen = [x, parts[1].detach(), *parts[2:]]
    feedforward.feed_forward(*frozen).sum().backward()
    assert parts[2].grad is not None


@pytest.mark.parametrize("bad", [torch.inf, torch.nan])
def test_what_is_no_number_comes_out_as_from_operators(bad: float) -> None:
    parts = given(2, 5)
    direction = random(2, 5, DIM, seed=9)
    direction[0, 0, 0] = bad
    expected = torch.autograd.grad(formula(*parts), parts, direction)
    for create_graph in (False, True):
        y = feedforward.feed_forward(*parts)
        found = torch.autograd.grad(y, parts, direction, create_graph=create_graph)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12, equal_nan=True)


def test_gradients_of_gradients() -> None:
    assert gradcheck(feedforward.feed_forward, given(2, 3))
    assert gradgradcheck(feedforward.feed_forward, given(2, 3))


def test_many_gradients_at_once() -> None:
    parts, directions = given(2, 3), random(4, 2, 3, DIM, seed=9)

    def gradients(y: torch.Tensor) -> Any:
        return torch.autograd.grad(y, parts, directions, is_grads_batched=True)

    close(gradients(feedforward.feed_forward(*parts)), gradients(formula(*parts)))


def test_a_checkpoint_computes_it_again() -> None:
    parts = given(2, 5)
    y = checkpoint(feedforward.feed_forward, *parts, use_reentrant=False)
    close(*(torch.autograd.grad(z.square().sum(), parts) for z in (y, formula(*parts))))


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # jvp's own
def test_operators_where_a_step_would_not_be_understood() -> None:
    """torch.func, dual numbers, autocast, bfloat16, and no gradient wanted."""
    parts = given(2, 3)
    close(
        torch.func.grad(lambda x: feedforward.feed_forward(x, *parts[1:]).sum())(parts[0]),
        torch.autograd.grad(formula(*parts).sum(), parts[0])[0],
    )
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(parts[0], torch.ones_like(parts[0]))
        tangents = [
            forward_ad.unpack_dual(f(dual, *parts[1:])).tangent
            for f in (feedforward.feed_forward, formula)
        ]
    close(*tangents)
    with torch.autocast("cpu", torch.bfloat16):
        assert not is_one_step(feedforward.feed_forward(*(part.float() for part in parts)))
    assert not is_one_step(feedforward.feed_forward(*(part.bfloat16() for part in parts)))
    with torch.no_grad():
        assert feedforward.feed_forward(*parts).grad_fn is None


def test_what_is_kept_is_not_changed_by_the_backward_pass() -> None:
    parts = given(2, 5)
    y = feedforward.feed_forward(*parts)
    first, again = (
        torch.autograd.grad(y.square().sum(), parts, retain_graph=True) for _ in range(2)
    )
    assert all(map(torch.equal, first, again))


def test_small_layers_are_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a step of our own takes longer to begin is more than it saves there."""
    monkeypatch.setattr(feedforward, "_LARGE", 1 << 17)
    layer = aq.nn.FeedForward(64, 256)
    assert not is_one_step(layer(torch.zeros(7, 64, 64)))
    assert is_one_step(layer(torch.zeros(8, 64, 64)))
