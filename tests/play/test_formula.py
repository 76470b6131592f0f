"""Formulas typed in: what they mean, what is refused, and what is proved of them."""

from __future__ import annotations

import json
import math
from contextlib import suppress

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anyseq.base import generator, uniform
from anyseq.construct import FUNCTIONS
from anyseq.errors import InvalidArgument
from anyseq.play.formula import DEEPEST, LONGEST, parse
from anyseq.play.shipped import FORMULAS

TOKENS = 3


def some_x(count: int = 200, tokens: int = TOKENS) -> torch.Tensor:
    return uniform(count, tokens, 1, rng=generator(7))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_librarys_functions_have_formulas(name: str) -> None:
    for tokens in (1, 2, 5):
        x = some_x(tokens=tokens)
        torch.testing.assert_close(parse(FORMULAS[name])(x), FUNCTIONS[name](x), rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_proved_of_them_is_no_less_than_what_is_so(name: str) -> None:
    found = parse(FORMULAS[name]).constants(TOKENS)
    example = FUNCTIONS[name]
    assert found.lipschitz is not None
    assert example.curvature is not None
    assert found.lipschitz >= 0.99 * example.lipschitz(TOKENS, 1)
    assert found.curvature is not None
    assert found.curvature >= (example.name == "times-max") * example.curvature(TOKENS, 1)


def test_meanings() -> None:
    x = some_x()
    a, b, c = x[..., 0].unbind(1)
    cases = {
        "max(x[0], x[1]) + 0.5*sin(3*x[i])": lambda i: (
            torch.maximum(a, b) + 0.5 * torch.sin(3 * x[:, i, 0])
        ),
        "-x[n-1] ** 2": lambda i: -(c**2),
        "min(x) + i/n": lambda i: x[..., 0].amin(1) + i / 3,
        "x[(i+1) % n] if i // 2 == 0 else sum(x[1:])": lambda i: [b, c, b + c][i],
        "mean(abs(x - x[i]))": lambda i: (x[..., 0] - x[:, i]).abs().mean(1),
        "sort(1 - x)[0]": lambda i: 1 - x[..., 0].amax(1),
        "relu(x[0] - 1/2) + log(1 + x[1]) * sqrt(4)": lambda i: (
            (a - 0.5).relu() + 2 * torch.log1p(b)
        ),
        "sigmoid(x[0]) + tanh(x[1]) - exp(-x[2]) + cos(pi) + e*0": lambda i: (
            a.sigmoid() + b.tanh() - torch.exp(-c) - 1
        ),
        "2": lambda i: torch.full_like(a, 2.0),
    }
    for text, wanted in cases.items():
        expected = torch.stack([wanted(i) for i in range(TOKENS)], 1)[..., None]
        torch.testing.assert_close(parse(text)(x), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("", None, "expected text"),
        ("x[i] +", 7, "one formula"),
        ("  y + 1", 3, "one of x, i, n"),
        ("x.__class__", 1, "one of x"),
        ("__import__", 1, "one of x"),
        ("__import__(x)", 1, "one of x"),
        ("(lambda: x[0])()", 2, "one of"),
        ("[x[0] for x in x]", 1, "one of"),
        ("x[i] := 2", 6, "one formula"),
        ("'a'", 1, "letters, digits"),
        ("f(x)", 1, "one of x"),
        ("sin(x[0])(x)", 1, "one of x"),
        ("max(key=x)", 1, "unnamed"),
        ("max(*x)", 5, "one of"),
        ("9**9**9", 4, "a whole number from 0 to 8"),
        ("x[i]**99", 7, "a whole number from 0 to 8"),
        ("x[i]**0.5", 7, "a whole number from 0 to 8"),
        ("1e999", 1, "a number up to"),
        ("1j", 1, "a number up to"),
        ("True", 1, "a number up to"),
        ("x[0] if x[0] < 1 else 0", 9, "made of i, n and digits"),
        ("x[x[0]]", 3, "made of i, n and digits"),
        ("x[0.5]", 3, "made of i, n and digits"),
        ("x // 2", 1, "whole numbers"),
        ("x", 1, "one number for token i"),
        ("sum(x[0])", 1, "one sequence"),
        ("max(x[0])", 1, "two or more"),
        ("x[::2]", 5, "x[a:b]"),
        ("x[0][1]", 1, "a sequence before"),
        ("x[i] if i else 2", 9, "one comparison"),
        ("x[i] if 0 < i < 2 else 2", 9, "one comparison"),
        ("x if i < 1 else x[0]", 1, "two of a kind"),
        ("х[i]", 1, "letters, digits"),  # a Cyrillic letter
        ("ﬁ(x)", 1, "letters, digits"),
        ("x[i]\n+1", 5, "letters, digits"),
        ("x[i]\0", 5, "letters, digits"),
        ("x[i] #", 6, "letters, digits"),
        ("+".join(["pi"] * 70), None, "of nesting"),
        ("-" * (DEEPEST + 2) + "1", DEEPEST + 2, "a flatter formula"),
        ("(" * 250 + "1" + ")" * 20, None, "one formula"),
        ("1" * (LONGEST + 1), None, "shorten it"),
    ],
)
def test_what_is_refused(text: str, column: int | None, expected: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse(text)
    said = str(caught.value)
    assert expected in said
    if column is not None:
        assert f"column {column}:" in said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x[3]", "0 to 2"),
        ("x[i-1]", "token 0 asks for entry -1"),
        ("sum(x[i+1:])", "token 2"),
        ("x[i//0]", "by 0"),
        ("sum(x + x[:2])", "sequences of 3 and 2"),
        ("x[0] + " + "*".join(["1000000"] * 9) + "//1", "whole number above"),
    ],
)
def test_what_does_not_fit_the_tokens_is_refused(text: str, expected: str) -> None:
    with pytest.raises(InvalidArgument, match="formula") as caught:
        parse(text).constants(TOKENS)
    assert expected in str(caught.value)


LEAVES = st.sampled_from(["x[0]", "x[i]", "x[n-1-i]", "0.5", "2", "i", "n", "pi", "mean(x)"])
NUMBERS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(
            st.sampled_from(["sin", "cos", "exp", "abs", "tanh", "sigmoid", "relu", "sqrt", "log"]),
            inner,
        ).map(lambda t: f"{t[0]}({t[1]})"),
        st.tuples(st.sampled_from(["max", "min"]), inner, inner).map(
            lambda t: f"{t[0]}({t[1]}, {t[2]})"
        ),
        st.tuples(inner, st.integers(0, 3)).map(lambda t: f"({t[0]})**{t[1]}"),
        inner.map(lambda text: f"sum(x * {text})"),
        inner.map(lambda text: f"sort(x - {text})[i]"),
    ),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(text=NUMBERS, seed=st.integers(0, 2**32))
def test_proved_constants_hold(text: str, seed: int) -> None:
    try:
        formula = parse(text)
    except InvalidArgument:
        return
    found = formula.constants(TOKENS)
    rng = generator(seed)
    x, way = uniform(64, TOKENS, 1, rng=rng), 2 * uniform(64, TOKENS, 1, rng=rng) - 1
    near = (x + 0.05 * way).clamp(0, 1)
    fx, fy = formula(x), formula(near)
    scale = float(torch.cat([fx, fy]).abs().max())
    if found.lipschitz is not None:
        assert math.isfinite(scale)
        moved = (fx - fy).abs().amax((1, 2))
        allowed = found.lipschitz * (x - near).abs().amax((1, 2))
        assert bool((moved <= allowed * (1 + 1e-9) + 1e-12 * (1 + scale)).all())
    if found.curvature is not None:
        order = x.argsort(1) == near.argsort(1)
        middle = formula((x + near) / 2)
        bend = (fx + fy - 2 * middle).abs().amax((1, 2))
        allowed = found.curvature * (x - near).square().sum((1, 2)) / 4
        alike = order.all(1)[:, 0]
        assert bool((bend <= allowed * (1 + 1e-9) + 1e-11 * (1 + scale))[alike].all())


@settings(max_examples=300, deadline=None)
@given(text=st.text(alphabet="xin0123456789.+-*/%()[],:<>=! sumaxecolgft_", max_size=60))
def test_any_text_is_a_formula_or_an_error_that_says_so(text: str) -> None:
    with suppress(InvalidArgument):
        check_formula(text)


def check_formula(text: str) -> None:
    formula = parse(text)
    formula.constants(TOKENS)
    assert formula(some_x(4)).shape == (4, TOKENS, 1)
    json.dumps(formula.tree, allow_nan=False)


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=40))
def test_any_unicode_is_a_formula_or_an_error(text: str) -> None:
    with suppress(InvalidArgument):
        check_formula(text)


def test_kinks_where_tokens_are_equal_leave_the_curvature() -> None:
    assert parse("abs(x[0] - x[1])").constants(TOKENS).curvature == 0
    assert parse("max(x[0], min(x[1], x[2]))").constants(TOKENS).curvature == 0
    assert parse("abs(x[0] - 1/2)").constants(TOKENS).curvature is None
    assert parse("max(x[0], 1/2)").constants(TOKENS).curvature is None


def test_what_is_not_known_is_none() -> None:
    for text in ("sqrt(x[0])", "log(x[0])", "1/x[0]", "1/(x[0] - 1/2)", "exp(exp(exp(exp(n))))"):
        found = parse(text).constants(TOKENS)
        assert not found.proved
