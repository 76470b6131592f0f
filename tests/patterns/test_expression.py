"""Patterns as people write them."""

import pytest

import anyseq as aq
from anyseq.errors import InvalidArgument
from anyseq.patterns import parse_pattern, pattern_text


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("full", aq.Full()),
        ("Window(64)", aq.Window(64)),
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
