"""Patterns as people write them."""

import re

import pytest

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
        ("window(0.5)", "is no pattern"),
        ("window(-1)", "radius=-1: expected"),
        ("window(3) + full", "is no pattern"),
        ("__import__('os')", "__import__ is unknown"),
        ("full.__class__", "is no pattern"),
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
        ("global()", "expected global(token, ...), such as global(0)"),
        ("window(1, 2, 3)", "expected window(radius) or window(before, after)"),
        ("longformer(1, x=1)", "'x'; expected longformer(radius, globals=(0,))"),
        ("causal(3)", "too many positional arguments; expected causal"),
        ("window(1.5)", "1.5 is no pattern and no whole number"),
        ("window(1) + full", "window(1) + full is no pattern; expected a name"),
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
