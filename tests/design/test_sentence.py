"""Designs in words."""

from __future__ import annotations

import pytest

import anyseq as aq
from anyseq.design import parse_design
from anyseq.errors import InvalidArgument
from anyseq.verdicts import describe

WINDOW = aq.Causal() & aq.Window(3)


@pytest.mark.parametrize(
    ("words", "design"),
    [
        ("full", aq.Design(8)),
        ("window(64)|global(0), rope, bos, depth 12",
         aq.Design(8, aq.Window(64) | aq.Global((0,)), aq.Rotary(), bos=True, depth=12)),
        ("causal & window(3), rope positions, BOS", aq.Design(8, WINDOW, aq.Rotary(), bos=True)),
        ("3 x causal & window(3) then causal, alibi",
         aq.Design(8, (WINDOW, WINDOW, WINDOW, aq.Causal()), aq.ALiBi())),
        ("(window(1) | global(0)) & (causal | global(0)), none",
         aq.Design(8, (aq.Window(1) | aq.Global((0,))) & (aq.Causal() | aq.Global((0,))),
                   aq.NoPosition())),
        ("full, urpe(absolute), sinks", aq.Design(8, None, aq.URPE(aq.Absolute()), sinks=True)),
        ("full, sinusoidal, topk(3), no feed-forward",
         aq.Design(8, None, aq.Sinusoidal(), prob_map=aq.TopK(3), feedforward=False)),
        ("(causal, rope, sinks) then (recurrence)",
         aq.Design(8, position=aq.NoPosition(), layers=[
             aq.Layer(aq.Causal(), aq.Rotary(), sinks=True), aq.Layer(mixer="recurrence")])),
        ("2 x (causal, rope) then recurrence, absolute",
         aq.Design(8, layers=[*[aq.Layer(aq.Causal(), aq.Rotary())] * 2,
                              aq.Layer(mixer="recurrence")])),
        ("convolution(3, causal) then causal, no feed-forward",
         aq.Design(8, layers=[aq.Layer(mixer=aq.Convolution(3, causal=True), feedforward=False),
                              aq.Layer(aq.Causal(), feedforward=False)])),
    ],
)  # fmt: skip
def test_words(words: str, design: aq.Design) -> None:
    assert parse_design(words, 8) == design


@pytest.mark.parametrize(
    "words",
    [
        "causal & window(3) then causal, rope positions, BOS, depth 12",
        "window(2), no positions, topk(3), sinks",
        "2 x (causal, rope positions) then (recurrence)",
    ],
)
def test_what_describe_says_is_read_back(words: str) -> None:
    assert describe(parse_design(words, 8)) == f"8 tokens, {words}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("windw(1), rope", "design 'windw(1), rope': pattern 'windw(1)': windw is unknown"),
        ("causal, up", "position 'up': expected one of none"),
        ("causal, rope, alibi", "'alibi' is a second position; expected one"),
        ("causal, depth 3, depth 4", "'depth 4' is a second depth"),
        ("causal, depth 0", "depth=0"),
        ("0 x causal", "expected 1 to 1,024 layers"),
        ("9999 x causal", "expected 1 to 1,024 layers"),
        ("(causal, up)", "layer 'causal, up'"),
        ("", "cannot be read"),
        ("causal then ", "cannot be read"),
        ("causal, (rope", "position '(rope'"),
        ("recurrence, sinks then", "position 'sinks then'"),
    ],
)
def test_what_cannot_be_read(words: str, message: str) -> None:
    with pytest.raises(InvalidArgument) as problem:
        parse_design(words, 8)
    assert message in str(problem.value)
