"""Patterns as people write them."""

import re

import pytest
import torch

import anyseq as aq
from anyseq.errors import InvalidArgument
from anyseq.patterns import Union, parse_pattern, pattern_text


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("full", aq.Full()),
        ("Window(64)", aq.Window(64)),
        ("window(radius=3)", aq.Window(3)),
        ("window(4, 0)", aq.Window(4, 0)),
        ("window(before=4, after=0)", aq.Window(4, 0)),
        ("window(64)|global(0)", aq.Window(64) | aq.Global((0,))),
        ("global(0, -1)", aq.Global((0, -1))),
        ("global((0, 3))", aq.Global((0, 3))),
        ("causal & ~window(2)", aq.Causal() & ~aq.Window(2)),
        ("log_sparse", aq.LogSparse()),
        ("longformer(8, globals=(0, 5))", aq.Longformer(8, (0, 5))),
        ("bigbird(64, random=2, seed=7)", aq.BigBird(64, random=2, seed=7)),
        ("documents(3, 5)", aq.Documents((3, 5))),
        ("perhead(window(1), full)", aq.PerHead(aq.Window(1), aq.Full())),
    ],
)
def test_expressions(text: str, pattern: aq.Pattern) -> None:
    assert parse_pattern(text) == pattern
    assert parse_pattern(pattern_text(pattern)) == pattern


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot be read"),
        ("window(", "cannot be read"),
        ("windw(3)", "windw is unknown; there are"),
        ("window()", "radius"),
        ("window(0.5)", "radius '0.5' is not a whole number"),
        ("window(-1)", "radius=-1: expected"),
        ("window(3) + full", "is not a pattern"),
        ("__import__('os')", "__import__ is unknown"),
        ("full.__class__", "is not a pattern"),
    ],
)
def test_bad_expressions(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        parse_pattern(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("window", "expected window(radius) or window(before, after)"),
        ("global", "expected global(token, ...), such as global(0)"),
        ("documents()", "expected documents(length, ...), such as documents(3, 5)"),
        ("global()", "expected global(token, ...), such as global(0)"),
        ("window(1, 2, 3)", "expected window(radius) or window(before, after)"),
        ("longformer(1, x=1)", "'x'; expected longformer(radius, globals=(0,))"),
        ("causal(3)", "too many positional arguments; expected causal"),
        ("window(two)", "radius 'two' is not a whole number; expected window(radius)"),
        ("window(3, x)", "after 'x' is not a whole number; expected window(radius)"),
        ("strided(x)", "stride 'x' is not a whole number; expected strided(stride), such as"),
        ("global(0, x)", "argument 'x' is not a whole number; expected global(token, ...)"),
        ("longformer(4, globals=(0, x))", "globals 'x' is not a whole number"),
        ("window(1) + full", "window(1) + full is not a pattern; expected a name"),
    ],
)
def test_errors_name_what_a_pattern_needs(text: str, words: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(words)) as caught:
        parse_pattern(text)
    assert text in str(caught.value)
    assert "__init__" not in str(caught.value)


def test_what_is_too_large_is_refused_and_white_space_is_not() -> None:
    assert parse_pattern("causal &" + " " * 400 + "window(3)") == aq.Causal() & aq.Window(3)
    assert parse_pattern("~ ~" * 3 + "full") == parse_pattern("~~~~~~full")
    many = parse_pattern("|".join(f"window({k})" for k in range(1, 200)))
    assert isinstance(many, Union)
    assert len(many.parts) == 199
    for text in ("~" * 50 + "full", "(" * 50 + "full" + ")" * 50, "|".join(["full"] * 300)):
        with pytest.raises(InvalidArgument, match=r"expected \d+ at most"):
            parse_pattern(text)
    with pytest.raises(InvalidArgument, match="beyond 2\\^63"):
        parse_pattern("window(99999999999999999999)")
    with pytest.raises(InvalidArgument, match="beyond 2\\^63"):
        aq.Window(10**20)


def test_a_text_is_taken_wherever_a_pattern_is() -> None:
    text, pattern = "window(2)|global(0)", aq.Window(2) | aq.Global((0,))
    q, k, v = torch.rand(3, 1, 2, 9, 4, generator=torch.Generator().manual_seed(0)).unbind()
    assert torch.equal(aq.attention(q, k, v, pattern=text), aq.attention(q, k, v, pattern=pattern))
    plan = aq.attention_plan(q, k, v, pattern=text)
    assert plan == aq.attention_plan(q, k, v, pattern=pattern)
    assert aq.Design(9, patterns=text) == aq.Design(9, patterns=pattern)
    assert aq.Design(9, patterns=("causal", text)) == aq.Design(9, patterns=(aq.Causal(), pattern))
    assert aq.Layer(pattern=text) == aq.Layer(pattern=pattern)
    assert aq.PerHead("causal", text) == aq.PerHead(aq.Causal(), pattern)
    assert aq.Window(2) | "global(0)" == pattern
    assert "causal" & aq.Window(2) == aq.Window(2) & aq.Causal()
    assert aq.nn.Attention(8, 2, pattern=text).pattern == pattern
    assert aq.nn.AverageMixer(8, pattern=text).sight.pattern == pattern
    assert aq.check(text, tokens=9).design == aq.check(pattern, tokens=9).design
    assert aq.check(("causal", text), tokens=9).universal


def test_a_bad_text_is_one_clear_line_wherever_it_is_given() -> None:
    q = torch.rand(1, 1, 4, 2)
    for call in (
        lambda: aq.attention(q, q, q, pattern="windw(2)"),
        lambda: aq.Design(4, patterns="windw(2)"),
        lambda: aq.nn.Attention(4, 2, pattern="windw(2)"),
        lambda: aq.Window(2) | "windw(2)",
    ):
        with pytest.raises(InvalidArgument, match="windw is unknown; there are"):
            call()


def test_a_text_is_read_once() -> None:
    assert parse_pattern("window(3) | global(1)") is parse_pattern("window(3) | global(1)")
