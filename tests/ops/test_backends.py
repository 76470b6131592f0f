"""Every backend against the formula, in float64: outputs, log-sum-exps, and all gradients."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import Any

import pytest
import torch

import anyseq as aq
from ops.cases import CALLS, Given, assert_same, assert_same_result, random, run, table

EPS = torch.finfo(torch.float64).eps

# Everything that can come together, for the long sequences.
RICH = ("bias and gain, sparse", "bias and gain, strided", "tensors, gathered", "shared axes")


def compare(call: Given, name: str) -> None:
    """All backends that do not refuse the call, with and without the log-sum-exp."""
    terms = call.n + (call.m or call.n)
    plan = aq.attention_plan(*call.sides(), **call.arguments)
    with_lse, without = run(call, "reference"), run(call, "reference", lse=False)
    for backend in ("native", "tiles"):
        if backend not in plan.refused:
            assert_same_result(run(call, backend), with_lse, terms, EPS, f"{name}, {backend}")
    for backend in ("sdpa",):
        if backend not in plan.refused:
            got = run(call, backend, lse=False)
            assert_same_result(got, without, terms, EPS, f"{name}, {backend}")


@pytest.mark.parametrize("n", [1, 2, 31, 129])
@pytest.mark.parametrize("name", CALLS)
def test_backends_agree(name: str, n: int) -> None:
    compare(CALLS[name](n), name)


@pytest.mark.parametrize("n", [127, 130, 1025])
@pytest.mark.parametrize("name", RICH)
def test_backends_agree_on_long_sequences(name: str, n: int) -> None:
    compare(CALLS[name](n), name)


@pytest.mark.parametrize("name", ["pattern nobody", "key_mask without keys", "a row of -inf"])
@pytest.mark.parametrize("backend", ["reference", "native", "tiles", "sdpa"])
def test_rows_that_see_nothing(name: str, backend: str) -> None:
    """Output 0, gradient 0, log-sum-exp -inf."""
    call = CALLS[name](9)
    rows: Any = {
        "pattern nobody": (slice(None), slice(None), slice(None)),
        "key_mask without keys": (0, slice(None), slice(None)),
        "a row of -inf": (slice(None), slice(None), 0),
    }[name]
    got = run(call, backend, lse=backend not in ("sdpa",))
    assert (got.out[rows] == 0).all()
    assert (got.gradients["q"][rows] == 0).all()
    assert got.lse is None or (got.lse[rows] == -torch.inf).all()
    assert all(bool(gradient.isfinite().all()) for gradient in got.gradients.values())


def rounded(call: Given, dtype: torch.dtype) -> Given:
    """The call with terms that `dtype` can hold."""
    arguments = dict(call.arguments)
    for name in ("bias", "gain"):
        term = arguments.get(name)
        if isinstance(term, aq.Toeplitz):
            arguments[name] = aq.Toeplitz(term.coefficients.to(dtype).double())
        elif term is not None:
            arguments[name] = term.to(dtype).double()
    return replace(call, arguments=arguments)


class Rounded(Given):
    """q, k and v that a shorter type can hold."""

    def sides(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        q, k, v = (side.bfloat16().double() for side in super().sides())
        return q, k, v


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", [*RICH, "is_causal", "pattern BigBird", "a row of -inf"])
def test_shorter_types_are_as_good_as_they_can_be(name: str, dtype: torch.dtype) -> None:
    """Against float64 on the same numbers. What is held in half precision is computed in float32,
    so that only a few numbers of it are rounded, however long the sums are."""
    call = rounded(CALLS[name](130), torch.bfloat16)
    call = Rounded(call.n, call.m, call.heads, call.kv_heads, call.arguments)
    terms = 260 if dtype == torch.float32 else 4
    expected, plan = run(call, "reference"), aq.attention_plan(*call.sides(), **call.arguments)
    for backend in ("native", "tiles"):
        if backend not in plan.refused:
            got = run(call, backend, dtype=dtype)
            assert got.out.dtype == dtype
            eps = torch.finfo(dtype).eps
            assert_same_result(got, expected, terms, eps, f"{name}, {backend}")


def test_a_bias_of_another_type() -> None:
    q, k, v = (random(1, 2, 70, 4, seed=s).float() for s in range(3))
    bias = table(70)
    for backend in ("reference", "native", "tiles", "sdpa"):
        out = aq.attention(q, k, v, bias=bias, pattern=aq.Window(3), backend=backend)
        assert out.dtype == torch.float32
        exact = aq.attention(
            q.double(), k.double(), v.double(), bias=bias, pattern=aq.Window(3), backend="reference"
        )
        assert_same(out, exact, 70, torch.finfo(torch.float32).eps, backend)


@pytest.mark.parametrize("backend", ["reference", "native", "tiles", "sdpa"])
@pytest.mark.parametrize("shape", [(0, 2, 3, 4), (2, 2, 0, 4), (2, 2, 3, 0)])
def test_nothing_to_do(backend: str, shape: tuple[int, int, int, int]) -> None:
    """No batch rows, no queries, no keys."""
    batch, heads, n, m = shape
    q = random(batch, heads, n, 3).requires_grad_()
    k, v = random(batch, heads, m, 3).requires_grad_(), random(batch, heads, m, 5).requires_grad_()
    out = aq.attention(q, k, v, pattern=aq.Window(1), backend=backend)
    assert out.shape == (batch, heads, n, 5)
    assert (out == 0).all()
    out.sum().backward()
    assert all(side.grad is not None and (side.grad == 0).all() for side in (q, k, v))


@pytest.mark.skipif(
    shutil.which("g++") is None and shutil.which("clang++") is None,
    reason="FlexAttention on the CPU is compiled, and there is no C++ compiler",
)
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method`:DeprecationWarning")  # of inductor
@pytest.mark.parametrize("name", ["pattern Star", "a cache"])
def test_flex_forward(name: str) -> None:
    """On the CPU it has no gradients, no gain and no log-sum-exp."""
    call = CALLS[name](130)
    arguments = {key: value for key, value in call.arguments.items() if key != "gain"}
    q, k, v = (side.float() for side in call.sides())
    expected = aq.attention(*call.sides(), **arguments, backend="reference")
    torch.compiler.reset()
    with torch.no_grad():
        out = aq.attention(q, k, v, **arguments, backend="flex")
    assert_same(out, expected, 260, torch.finfo(torch.float32).eps, name)
