"""`check` against brute force over all sequences of a small alphabet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import anyseq as aq
from anyseq.patterns import Ring
from anyseq.probability import ProbMap
from anyseq.verdicts import NORMS, TARGETS
from verdicts import classes, random_heads
from verdicts.designs import designs


def contradiction(
    design: aq.Design,
    norm: str,
    target: str,
    coloured: Callable[[aq.Design, Sequence[classes.Tokens]], classes.Colours] = classes.coloured,
) -> object:
    """What the verdict says against what brute force says; None if they agree, or one of them
    speaks of something else."""
    verdict = aq.check(design, norm=norm, target=target)
    name = "" if verdict.witness is None else verdict.witness.name
    if verdict.universal is None or name in ("W7", "W10", "W11"):
        return None  # those are about what single tokens do
    kind = "" if verdict.certificate is None else verdict.certificate.kind
    n = design.tokens
    # in L^p tokens differ; one letter more than tokens, so that none is known from the others
    mean = norm == "lp" and design.domain == "cube"
    if kind == "rigid" or (mean and name in ("W2", "W3", "W4")):
        sequences = classes.without_repeats(n, n + 1)
    else:
        sequences = classes.words(n, 3 if n < 4 else 2)
    found = classes.confused(
        coloured(design, sequences), classes.allowed(design, target, sequences)
    )
    return (verdict.universal, verdict.reason, found) if verdict.universal == bool(found) else None


SMALL = designs(models=True, most=4, feedforward=True)
MIXED = designs(mixers=True, models=True, most=4, feedforward=True)


@given(SMALL, st.sampled_from(NORMS), st.sampled_from(TARGETS))
@settings(max_examples=250, deadline=None)
def test_attention(design: aq.Design, norm: str, target: str) -> None:
    assert contradiction(design, norm, target) is None


@given(MIXED, st.sampled_from(NORMS), st.sampled_from(TARGETS))
@settings(max_examples=250, deadline=None)
def test_other_mixers(design: aq.Design, norm: str, target: str) -> None:
    assert contradiction(design, norm, target) is None


LOOKS = [
    aq.Causal(), aq.Window(1, 0), aq.Window(2, 0), aq.Dilated(1, 2) & aq.Causal(),
    aq.Blocks(2) & aq.Causal(), aq.Causal() & ~aq.Window(0), aq.Full(), aq.Window(1), aq.Star(1),
    aq.Global((0,)), aq.PerHead(aq.Window(1), aq.Causal()),
]  # fmt: skip
INSIDE = [
    aq.NoPosition(), aq.NoPosition(), aq.ALiBi(), aq.T5Bias(4, 3), aq.Shaw(2), aq.Rotary(),
    aq.RelativeBias(), aq.URPE(aq.NoPosition()),
]  # fmt: skip
MAPS = ["softmax", "softmax", "softmax", "entmax15", "hardmax"]
SUMS = [aq.LinearAttention(normalised=False), aq.LinearAttention(), aq.Average(), aq.Convolution(3)]


@st.composite
def untold(draw: st.DrawFn, past: bool) -> aq.Design:
    """Designs that tell no positions at the input, and whose patterns let tokens meet. past: all
    look back."""
    looks = LOOKS[:5] if past else LOOKS
    layers = [
        aq.Layer(
            draw(st.sampled_from(looks)),
            draw(st.sampled_from(INSIDE)),
            draw(st.sampled_from(MAPS)),
            sinks=draw(st.integers(0, 7)) == 0,
        )
        for _ in range(draw(st.integers(1, 2)))
    ]
    if draw(st.integers(0, 2)) == 0:
        layers[0] = aq.Layer(
            draw(st.sampled_from(looks[:10])), mixer=draw(st.sampled_from(SUMS[:3]))
        )
    elif not past and draw(st.integers(0, 4)) == 0:
        layers[-1] = aq.Layer(mixer=SUMS[-1])
    tokens = draw(st.integers(2, 4))
    readouts: list[str | int] = ["all", "last", tokens // 2]
    return aq.Design(
        tokens,
        layers=layers,
        position=aq.NoPosition(),
        bos=draw(st.integers(0, 3)) == 0,
        depth=draw(st.sampled_from([None, None, 2, 3, 4, 5])),
        readout=draw(st.sampled_from(readouts)),
    )


@given(untold(past=False), st.sampled_from(NORMS), st.sampled_from(TARGETS))
@settings(max_examples=500, deadline=None)
def test_designs_that_tell_no_positions(design: aq.Design, norm: str, target: str) -> None:
    assert contradiction(design, norm, target) is None


@given(untold(past=True), st.sampled_from(NORMS))
@settings(max_examples=400, deadline=None)
def test_designs_that_look_back(design: aq.Design, norm: str) -> None:
    assert contradiction(design, norm, "causal") is None


@st.composite
def alike(draw: st.DrawFn) -> aq.Design:
    """Designs in whose layers places may look alike though all tokens differ."""
    layers = [
        draw(
            st.sampled_from(
                [
                    aq.Layer(aq.Full(), aq.NoPosition(), draw(st.sampled_from(MAPS))),
                    aq.Layer(aq.Full(), aq.ALiBi()),
                    aq.Layer(aq.Full(), aq.T5Bias(4, 3)),
                    aq.Layer(aq.Window(1), aq.NoPosition()),
                    aq.Layer(Ring(1), aq.NoPosition()),
                    aq.Layer(aq.Blocks(2), aq.Rotary()),
                    aq.Layer(aq.Blocks(2), aq.NoPosition()),
                    aq.Layer(aq.Full(), mixer=draw(st.sampled_from(SUMS[:3]))),
                    aq.Layer(mixer=aq.Convolution(3)),
                ]
            )
        )
        for _ in range(draw(st.integers(1, 2)))
    ]
    tokens, depth = draw(st.integers(2, 4)), draw(st.sampled_from([None, None, 2, 3, 4]))
    return aq.Design(tokens, layers=layers, position=aq.NoPosition(), depth=depth)


@given(alike())
@settings(max_examples=150, deadline=None)
def test_designs_in_which_places_look_alike(design: aq.Design) -> None:
    assert contradiction(design, "lp", "all") is None


ROUGH: list[str | ProbMap] = ["hardmax", "sparsemax", "entmax15", aq.TopK(2), aq.TopK(3)]


@given(untold(past=False), st.data(), st.sampled_from(NORMS), st.sampled_from(TARGETS))
@settings(max_examples=250, deadline=None)
def test_random_heads_with_every_map(
    design: aq.Design, data: st.DataObject, norm: str, target: str
) -> None:
    """No rules: what is said to be told apart random heads do tell apart, and nothing else."""
    layers = [
        replace(layer, prob_map=data.draw(st.sampled_from(ROUGH))) if layer.attends else layer
        for layer in design.layer_cycle
    ]
    design = design.with_layers(layers)
    assert contradiction(design, norm, target, random_heads.coloured) is None


@given(untold(past=False), st.sampled_from(TARGETS))
@settings(max_examples=150, deadline=None)
def test_of_ids_a_mean_is_as_hard_as_the_largest_error(design: aq.Design, target: str) -> None:
    ids = replace(design, domain="ids")
    answers = {aq.check(ids, norm=norm, target=target).universal for norm in NORMS}
    assert answers == {aq.check(design, target=target).universal}
    assert contradiction(ids, "lp", target) is None


@pytest.mark.parametrize(
    ("pattern", "position", "tokens", "letters", "told"),
    [
        (aq.Causal(), aq.Rotary(), 4, 3, 120 - 3 * 3),
        (aq.Causal(), aq.NoPosition(), 5, 2, 62 - 4 * 2),
        (aq.Causal() & aq.Window(1), aq.Rotary(), 4, 3, 81),
        (aq.Full(), aq.RelativeBias(), 4, 2, 64 - 3 * 2),
        (aq.Full(), aq.NoPosition(), 3, 2, 6),
    ],
    ids=str,
)
def test_how_many_pairs_are_told_apart(
    pattern: aq.Pattern, position: aq.Position, tokens: int, letters: int, told: int
) -> None:
    """Full causal attention confuses constant prefixes and nothing else, a window also how often
    the first token is repeated; without positions a place is its token and the multiset."""
    design, sequences = aq.Design(tokens, pattern, position), classes.words(tokens, letters)
    assert len(set(classes.coloured(design, sequences).values())) == told


def test_what_brute_force_finds() -> None:
    """Its own errors: what is confused is shown, and a layer less tells less."""
    design = aq.Design(3, aq.Causal(), aq.Rotary())
    sequences = classes.words(3, 2)
    wanted = classes.allowed(design, "causal", sequences)
    first, second = classes.confused(classes.coloured(design, sequences), wanted)
    assert len(set(first[0][: first[1] + 1] + second[0][: second[1] + 1])) == 1
    line = aq.Design(3, aq.Window(1, 0), aq.Absolute())
    assert classes.confused(classes.coloured(line, sequences, depth=2), wanted) is None
    assert classes.confused(classes.coloured(line, sequences, depth=1), wanted) is not None
