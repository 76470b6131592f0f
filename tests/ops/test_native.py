"""The native kernel as a step of autograd: gradients of all kinds, threads, and who must not meet
it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

import anyseq as aq
from ops.cases import coin, inputs, random, table, with_minus_infinity

NAMES = ("q", "k", "v", "bias", "gain")


def given(n: int, toeplitz: bool = True) -> list[torch.Tensor]:
    shapes = [(2, 2 * n - 1), (1, 2 * n + 3)] if toeplitz else [(2, 1, n, n), (1, 2, 1, n)]
    sides = [*inputs(n), *(random(*shape, seed=4 + at) for at, shape in enumerate(shapes))]
    return [side.clone().requires_grad_() for side in sides]


def attend(*sides: torch.Tensor, backend: str = "native", **arguments: Any) -> torch.Tensor:
    q, k, v, bias, gain = sides
    wrap = aq.Toeplitz if bias.ndim == 2 else lambda x: x
    out: torch.Tensor = aq.attention(
        q, k, v, bias=wrap(bias), gain=wrap(gain), backend=backend, **arguments
    )
    return out


def results(sides: list[torch.Tensor], backend: str, **arguments: Any) -> list[torch.Tensor]:
    """The output, and all gradients of a function of it."""
    out = attend(*sides, backend=backend, **arguments)
    return [out.detach(), *torch.autograd.grad(out.square().sum(), sides)]


def close(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


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
    for backend in ("native", "reference"):
        out = aq.attention(q, k, v, bias=bias, backend=backend)
        (first,) = torch.autograd.grad(out.square().sum(), q, create_graph=True)
        found.append([first, *torch.autograd.grad(first.square().sum(), (q, k, v))])
    close(found[0], found[1])


def gradients_of_gradients(x: torch.Tensor, run: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    (first,) = torch.autograd.grad(run(x).square().sum(), x, create_graph=True)
    return first, torch.autograd.grad(first.square().sum(), x)


def test_inputs_made_of_one_another() -> None:
    """Each has its own part of the gradient once, however often it is differentiated."""
    x = random(2, 2, 5, 3).requires_grad_()

    def run(x: torch.Tensor, backend: str) -> torch.Tensor:
        bias = (x @ x.mT).sin()
        out: torch.Tensor = aq.attention(x, x, x, bias=bias, gain=bias.cos(), backend=backend)
        return out

    for way in (gradients_of_gradients, jacobian_at_once):
        found, expected = (way(x, partial(run, backend=name)) for name in ("native", "reference"))
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def jacobian_at_once(x: torch.Tensor, run: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    return torch.autograd.functional.jacobian(run, x.detach(), vectorize=True)


@pytest.mark.parametrize(
    "position", [aq.Shaw(4), aq.URPE(aq.RelativeBias()), aq.Rotary()], ids=repr
)
def test_layers_are_differentiated_twice(position: aq.Position) -> None:
    x = random(8, 40, 16).requires_grad_()
    found = []
    for backend in ("native", "reference"):
        torch.manual_seed(0)
        layer = aq.nn.Attention(
            16, 4, position=position, tokens=40, dtype=torch.float64, backend=backend
        )
        found.append(gradients_of_gradients(x, layer))
    torch.testing.assert_close(found[0], found[1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("wanted", NAMES)
def test_gradients_of_some_inputs_only(wanted: str) -> None:
    everything = given(6)
    some = [
        side.detach().requires_grad_(name == wanted)
        for name, side in zip(NAMES, everything, strict=True)
    ]
    at = NAMES.index(wanted)
    (found,) = torch.autograd.grad(attend(*some).square().sum(), some[at])
    close(found, results(everything, "reference")[1 + at])


def test_what_one_call_leaves_is_nothing_to_the_next() -> None:
    """Calls of other sizes before, between and after; every backward pass after every forward."""
    sizes = (5, 9, 3, 9, 12, 5)
    kept = [given(n, toeplitz=bool(n % 2)) for n in sizes]
    outs = [attend(*sides) for sides in kept]
    for sides, out in reversed(list(zip(kept, outs, strict=True))):
        found = torch.autograd.grad(out.square().sum(), sides)
        close([out.detach(), *found], results(sides, "reference"))


def test_a_graph_that_is_kept_gives_the_same_gradients_again() -> None:
    sides = given(6)
    out = attend(*sides)
    loss = out.square().sum()
    first = torch.autograd.grad(loss, sides, retain_graph=True)
    attend(*(side * 2 for side in given(6))).sum().backward()
    close(torch.autograd.grad(loss, sides), first)


def test_nan_that_was_left_in_the_memory_is_not_seen() -> None:
    sides = given(7)
    with torch.no_grad():
        wrong = [side.clone() for side in sides]
        wrong[2].fill_(torch.nan)
        with pytest.raises(aq.errors.InvalidArgument, match="v holds NaN"):
            attend(*wrong)
    close(results(sides, "native"), results(sides, "reference"))


def test_threads_have_memory_of_their_own() -> None:
    kept = [given(n) for n in (40, 41, 42, 43)]
    expected = [results(sides, "reference") for sides in kept]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            close(list(pool.map(lambda sides: results(sides, "native"), kept)), expected)


def test_who_watches_operators_may_keep_what_they_gave() -> None:
    """Selective checkpointing: then it is an operator, not a step."""
    sides = given(40)
    keep = partial(create_selective_checkpoint_contexts, [torch.ops.aten.bmm.default])

    def run(*sides: torch.Tensor) -> torch.Tensor:
        return attend(*sides)

    out = checkpoint(run, *sides, use_reentrant=False, context_fn=keep)
    close(torch.autograd.grad(out.square().sum(), sides), results(sides, "reference")[1:])


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # jvp's own
def test_a_backward_pass_along_a_direction() -> None:
    """Dual numbers that come only after the forward pass."""
    found = []
    for backend in ("native", "reference"):
        sides = given(6)
        out = attend(*sides, backend=backend)
        backward = partial(torch.autograd.grad, out, sides, retain_graph=True)
        one, other = random(*out.shape, seed=7), random(*out.shape, seed=8)
        with forward_ad.dual_level():
            duals = backward(forward_ad.make_dual(one, other))
            along = [forward_ad.unpack_dual(dual).tangent for dual in duals]
        found.append([*along, *torch.func.jvp(backward, (one,), (other,))[1]])
    close(found[0], found[1])


@pytest.mark.parametrize("padding", ["some", "a whole sequence"])
def test_padding_and_a_pattern_in_layers(padding: str) -> None:
    layer = aq.nn.Attention(
        16, 2, pattern=aq.Window(3), position=aq.URPE(aq.RelativeBias()), tokens=40,
        dtype=torch.float64,
    )  # fmt: skip
    plain = aq.nn.Attention(
        16, 2, pattern=aq.Window(3), position=aq.URPE(aq.RelativeBias()), tokens=40,
        dtype=torch.float64, backend="reference",
    )  # fmt: skip
    plain.load_state_dict(layer.state_dict())
    x, mask = random(16, 40, 16), coin(16, 40)
    if padding == "a whole sequence":
        mask[3] = False
    found = []
    for one in (layer, plain):
        own = x.clone().requires_grad_()
        out = one(own, key_mask=mask)
        found.append([out, *torch.autograd.grad(out.square().sum(), [own, *one.parameters()])])
    close(found[0], found[1])
    assert all(bool(one.isfinite().all()) for one in found[0])


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # jvp's own
def test_transforms_meet_operators_they_know() -> None:
    """auto takes the formula inside torch.func and with dual numbers, with the same result."""
    q, k, v = inputs(40, batch=12)
    gain, change = table(40), random(*q.shape, seed=9)
    assert aq.attention_plan(q, k, v, gain=gain).backend == "native"

    def run(q: torch.Tensor) -> torch.Tensor:
        return aq.attention(q, k, v, gain=gain)

    along = torch.func.jvp(run, (q,), (change,))[1]
    with forward_ad.dual_level():
        dual = forward_ad.unpack_dual(run(forward_ad.make_dual(q, change))).tangent
    step = 1e-6
    expected = (run(q + step * change) - run(q - step * change)) / (2 * step)
    torch.testing.assert_close(along, expected, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(dual, expected, rtol=1e-6, atol=1e-8)
    each = torch.func.vmap(lambda row: run(row[None].expand(12, -1, -1, -1))[0])(q[:2])
    assert each.shape == (2, 2, 40, 4)


def test_autocast_keeps_its_types() -> None:
    q, k, v = (side.float().requires_grad_() for side in inputs(40, batch=12))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = aq.attention(q, k, v, gain=torch.ones(40, 40))
    assert out.isfinite().all()


def test_a_single_row_or_key_in_any_order_of_memory() -> None:
    """Its stride is nothing to torch."""
    for n, m in ((1, 5), (5, 1), (1, 1)):
        q = random(1, 2, 24, n, seed=1).transpose(2, 3).requires_grad_()
        k, v = (random(1, 2, 24, m, seed=seed).transpose(2, 3).requires_grad_() for seed in (2, 3))
        weight = random(1, 2, 24, n, seed=4)
        found = []
        for backend in ("native", "tiles", "reference"):
            out = aq.attention(q, k, v, backend=backend)
            loss = (out.transpose(2, 3).contiguous() * weight).sum()
            found.append([out, *torch.autograd.grad(loss, (q, k, v))])
        close(found[0], found[2])
        close(found[1], found[2])


def test_numbers_that_are_stored_negated() -> None:
    q, k, v = (torch._neg_view(side) for side in inputs(6))
    bias = torch.complex(random(2, 2, 6, 6), random(2, 2, 6, 6, seed=1)).conj().imag
    found, expected = (
        aq.attention(q, k, v, bias=bias, backend=name) for name in ("native", "reference")
    )
    close(found, expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_gradients_of_gradients_in_other_types(dtype: torch.dtype) -> None:
    other = torch.float32 if dtype == torch.bfloat16 else torch.float64
    q, k, v = (side.to(dtype).requires_grad_() for side in inputs(6))
    bias = random(2, 2, 6, 6).to(other).requires_grad_()
    out = aq.attention(q, k, v, bias=bias, backend="native")
    first = torch.autograd.grad(out.float().square().sum(), (q, bias), create_graph=True)
    second = torch.autograd.grad(first[0].float().square().sum(), (q, k, v, bias))
    assert [one.dtype for one in second] == [*3 * [dtype], other]
    assert all(bool(one.isfinite().all()) for one in second)


def test_a_hook_is_told_where_a_single_query_stands() -> None:
    q, k, v = inputs(40)

    def hook(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return score + 0.01 * j * j - 0.1 * i

    everything = aq.attention(q, k, v, pattern=aq.Window(4), score_mod=hook)
    one = aq.attention(q[:, :, 30:31], k, v, pattern=aq.Window(4), score_mod=hook, q_offset=30)
    close(one, everything[:, :, 30:31])


@pytest.mark.parametrize("pattern", [aq.Window(4) & aq.Causal(), aq.Window(4), aq.Causal(), None])
def test_a_single_query_sees_what_it_sees_among_others(pattern: aq.Pattern | None) -> None:
    q, k, v = inputs(40)
    ids = (torch.arange(40) // 16).expand(2, 40)
    terms: dict[str, Any] = {"bias": table(40), "key_mask": coin(2, 40), "document_ids": ids}
    everything = aq.attention(q, k, v, pattern=pattern, backend="reference", **terms)
    for at in (0, 3, 30, 39):
        for backend in ("auto", "native", "sdpa"):
            one = aq.attention(
                q[:, :, at : at + 1], k, v, pattern=pattern, q_offset=at, backend=backend, **terms
            )
            close(one, everything[:, :, at : at + 1])


def test_very_large_scores_are_numbers_in_the_backward_pass() -> None:
    q = torch.full((1, 1, 64, 4), 3e4).requires_grad_()
    k = (3e4 + torch.arange(256.0).view(1, 1, 64, 4)).requires_grad_()
    out = aq.attention(q, k, torch.randn(1, 1, 64, 4), backend="native")
    assert all(bool(one.isfinite().all()) for one in torch.autograd.grad(out.sum(), (q, k)))


def test_a_function_is_not_held_by_what_a_single_query_remembers() -> None:
    q, k, v = inputs(8)
    seen = torch.zeros(1)
    held = weakref.ref(seen)

    def rule(b: Any, h: Any, i: Any, j: Any, seen: torch.Tensor = seen) -> Any:
        return (j <= i) & (seen[0] == 0)

    pattern = aq.FromMask(rule)
    for own in (pattern, pattern & aq.Causal()):
        aq.attention(q[:, :, 7:], k, v, pattern=own, q_offset=7, backend="reference")
    del rule, pattern, own, seen
    gc.collect()
    assert held() is None
