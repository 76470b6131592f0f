"""The function of torch's name against torch's own, in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention as torchs

import anyseq as aq
from anyseq.errors import InvalidArgument
from ops.cases import coin, random

EPS = torch.finfo(torch.float64).eps


@st.composite
def shapes(draw: st.DrawFn) -> tuple[list[tuple[int, ...]], tuple[int, ...], bool]:
    """Shapes of query, key and value, the full shape of the scores, and whether heads are
    grouped."""
    n, m, d, e = (draw(st.integers(1, 9)) for _ in range(4))
    gqa = draw(st.booleans())
    axes = draw(st.integers(3 if gqa else 2, 5))
    heads = draw(st.integers(1, 4))
    batch = [draw(st.integers(1, 3)) for _ in range(max(0, axes - 3))]
    groups = draw(st.sampled_from([g for g in (1, 2, 4) if heads % g == 0])) if gqa else heads
    found = []
    for count, size, own in ((heads, d, n), (groups, d, m), (groups, e, m)):
        leading = [*batch, count][: axes - 2] if axes > 2 else []
        if not gqa and draw(st.booleans()):  # shared axes, and missing ones
            leading = [draw(st.sampled_from([1, one])) for one in leading]
            leading = leading[draw(st.integers(0, len(leading))) :]
        found.append((*leading, own, size))
    full = torch.broadcast_shapes(*(one[:-2] for one in found)) if not gqa else (*batch, heads)
    return found, (*full, n, m), gqa


@st.composite
def calls(draw: st.DrawFn) -> tuple[list[torch.Tensor], dict[str, Any]]:
    sizes, full, gqa = draw(shapes())
    sides = [random(*one, seed=at).requires_grad_() for at, one in enumerate(sizes)]
    arguments: dict[str, Any] = {"enable_gqa": gqa}
    kind = draw(st.sampled_from(["none", "causal", "bool", "float"]))
    if kind == "causal":
        arguments["is_causal"] = True
    elif kind != "none":
        shape = [draw(st.sampled_from([1, size])) for size in full]
        shape = shape[draw(st.integers(0, len(shape) - 2)) :]
        seed = draw(st.integers(0, 9))
        mask = coin(*shape, seed=seed) if kind == "bool" else random(*shape, seed=seed)
        arguments["attn_mask"] = mask
    if draw(st.booleans()):
        arguments["scale"] = draw(st.sampled_from([0.1, 1.0, 3.0]))
    return sides, arguments


def both(sides: list[torch.Tensor], out: torch.Tensor) -> list[torch.Tensor]:
    """out and the gradients of a fixed random combination of it."""
    return [out, *torch.autograd.grad(out, sides, random(*out.shape, seed=9))]


@settings(max_examples=150)
@given(calls())
def test_it_is_torchs(call: tuple[list[torch.Tensor], dict[str, Any]]) -> None:
    sides, arguments = call
    q, k, v = sides
    expected = both(sides, _formula(q, k, v, **arguments))
    found = both(sides, aq.scaled_dot_product_attention(q, k, v, **arguments))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e4 * EPS)
    theirs = torchs(q, k, v, **arguments)
    assert found[0].shape == theirs.shape
    seen = ~theirs.isnan()  # rows that see nothing: 0 or NaN, by torch's backend
    torch.testing.assert_close(found[0][seen], theirs[seen], rtol=0, atol=1e4 * EPS)


def _formula(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """As torch's documentation writes it; rows that see nothing give 0."""
    n, m = query.shape[-2], key.shape[-2]
    if enable_gqa:
        key, value = (
            side.repeat_interleave(query.shape[-3] // side.shape[-3], -3) for side in (key, value)
        )
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    allowed = torch.ones(n, m, dtype=torch.bool)
    if is_causal:
        allowed = allowed.tril()
    elif attn_mask is not None and attn_mask.dtype == torch.bool:
        allowed = attn_mask
    elif attn_mask is not None:
        scores = scores + attn_mask
    empty = ~allowed.expand(scores.shape).any(-1, keepdim=True)
    weights = scores.masked_fill(~allowed & ~empty, -torch.inf).softmax(-1)
    return weights.masked_fill(empty, 0.0) @ value


@pytest.mark.parametrize("pattern", [aq.Window(2), coin(7, 9), lambda b, h, i, j: i >= j])
@pytest.mark.parametrize("kind", ["rows", "keys", "float"])
def test_patterns_and_masks_must_both_allow(pattern: Any, kind: str) -> None:
    q, k, v = random(2, 3, 2, 7, 4), random(2, 3, 2, 9, 4), random(2, 3, 2, 9, 5)
    mask = coin(2, 3, 1, 1 if kind == "keys" else 7, 9)
    given_mask = torch.where(mask, 0.0, -torch.inf).double() if kind == "float" else mask
    found = aq.scaled_dot_product_attention(q, k, v, given_mask, pattern=pattern)
    allowed = pattern
    if not isinstance(pattern, torch.Tensor):
        i, j = torch.arange(7)[:, None], torch.arange(9)
        allowed = pattern(torch.zeros(1), torch.zeros(1), i, j)
    expected = _formula(q, k, v, mask & allowed)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e4 * EPS)


def test_dropout_keeps_the_mean() -> None:
    q, k, v = random(1, 1, 2000, 4), random(1, 1, 6, 4, seed=1), torch.ones(1, 1, 6, 1).double()
    torch.manual_seed(0)
    out = aq.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    assert abs(float(out.mean()) - 1) < 0.1
    assert float(out.std()) > 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"attn_mask": coin(5, 5), "is_causal": True}, "one of them"),
        ({"attn_mask": coin(5)}, "two axes"),
        ({"attn_mask": coin(3, 5, 5)}, "broadcasts to"),
        ({"attn_mask": torch.ones(5, 5).long()}, "floating-point"),
        ({"key": random(2, 3, 5, 4)}, "enable_gqa"),
        ({"key": random(4)}, "key"),
    ],
)
def test_refusals(arguments: dict[str, Any], message: str) -> None:
    sides = {name: random(2, 2, 5, 4) for name in ("query", "key", "value")}
    with pytest.raises(InvalidArgument, match=message):
        aq.scaled_dot_product_attention(**(sides | arguments))
