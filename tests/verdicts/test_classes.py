"""`check` against brute force over all sequences of a small alphabet."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import anyseq as aq
from anyseq.verdicts import NORMS, TARGETS
from verdicts import classes
from verdicts.designs import designs


def contradiction(design: aq.Design, norm: str, target: str) -> object:
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
    colours = classes.coloured(design, sequences)
    found = classes.confused(colours, classes.allowed(design, target, sequences))
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


PAST = [
    aq.Causal(), aq.Window(1, 0), aq.Window(2, 0), aq.Dilated(1, 2) & aq.Causal(),
    aq.Blocks(2) & aq.Causal(),
]  # fmt: skip


@st.composite
def readouts(draw: st.DrawFn) -> aq.Design:
    """Designs of layers that look back, of which the last output is read."""
    many = draw(st.integers(1, 2))
    position = draw(
        st.sampled_from([aq.NoPosition(), aq.ALiBi(), aq.T5Bias(4, 3), aq.Rotary(), aq.Shaw(2)])
    )
    layers = [
        aq.Layer(
            draw(st.sampled_from(PAST)), position, draw(st.sampled_from(["softmax", "entmax15"]))
        )
        for _ in range(many)
    ]
    layers[0] = draw(st.sampled_from([layers[0], aq.Layer(PAST[1], mixer=aq.Average())]))
    return aq.Design(
        draw(st.integers(3, 5)),
        layers=layers,
        position=aq.NoPosition(),
        bos=draw(st.booleans()),
        depth=draw(st.sampled_from([None, None, 2, 3, 4])),
        readout="last",
    )


@given(readouts(), st.sampled_from(["all", "equivariant"]))
@settings(max_examples=150, deadline=None)
def test_one_output_of_layers_that_look_back(design: aq.Design, target: str) -> None:
    assert contradiction(design, "sup", target) is None


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
