"""Any pattern, any sizes: the tiles against the formula."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import anyseq as aq
from ops.cases import Given, assert_same_result, coin, random, run
from ops.expressions import by_head


@st.composite
def terms(
    draw: st.DrawFn, batch: int, heads: int, n: int, m: int, span: int, seed: int, bias: bool
) -> Any:
    """No term, a Toeplitz with one table or one for each head, a tensor with shared axes, or, as
    the bias, a table for an array."""
    kind = draw(st.sampled_from(["none", "toeplitz", "tensor"] + ["grid"] * bias))
    if kind == "none":
        return None
    shared = draw(st.lists(st.booleans(), min_size=4, max_size=4))
    if kind == "toeplitz":
        reach = span + draw(st.integers(0, 5))
        return aq.Toeplitz(random(1 if shared[0] else heads, 2 * reach - 1, seed=seed))
    if kind == "grid":
        wide = draw(st.integers(1, 12))
        shape = 2 * -(-span // wide) - 1, 2 * wide - 1
        return aq.GridToeplitz(random(1 if shared[0] else heads, *shape, seed=seed))
    full = (batch, heads, n, m)
    return random(*(1 if one else size for one, size in zip(shared, full, strict=True)), seed=seed)


@st.composite
def calls(draw: st.DrawFn) -> Given:
    n, m, q_offset = draw(st.integers(1, 150)), draw(st.integers(1, 150)), 0
    if draw(st.booleans()):
        m = n
    if draw(st.booleans()):
        q_offset = draw(st.integers(0, 40))
    span = max(m, q_offset + n)
    heads, groups = draw(st.sampled_from([(1, 1), (2, 1), (2, 2), (3, 1), (4, 2)]))
    arguments: dict[str, Any] = {
        "pattern": draw(by_head(span)),
        "bias": draw(terms(2, heads, n, m, span, 4, True)),
        "gain": draw(terms(2, heads, n, m, span, 5, False)),
        "is_causal": draw(st.booleans()),
        "q_offset": q_offset,
        "enable_gqa": groups > 1,
    }
    if draw(st.booleans()):
        arguments["key_mask"] = coin(2, m, seed=draw(st.integers(0, 5)))
    if draw(st.booleans()):
        arguments["softcap"] = draw(st.sampled_from([0.5, 3.0, 50.0]))
    if q_offset + n <= m and draw(st.booleans()):
        whole = torch.arange(m) // draw(st.integers(1, 60))
        arguments["document_ids"] = torch.stack([whole, whole % draw(st.integers(1, 3))])
    return Given(n, m, heads, heads // groups, arguments)


@settings(max_examples=60)
@given(calls(), st.sampled_from([torch.float64, torch.float32]), st.integers(1, 3))
def test_fast_backends_are_the_formula(call: Given, dtype: torch.dtype, threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        compare(call, dtype)
    finally:
        torch.set_num_threads(before)


def compare(call: Given, dtype: torch.dtype) -> None:
    expected = run(call, "reference")
    terms = call.n + (call.m or call.n) + 8  # and the inputs were rounded
    for backend in ("native", "tiles"):
        got = run(call, backend, dtype=dtype)
        assert_same_result(got, expected, terms, torch.finfo(dtype).eps, backend)
