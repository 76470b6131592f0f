"""Verdicts against networks: what is refuted is never beaten, what is proved is carried out."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

import anyseq as aq
from anyseq.verdicts import NORMS, TARGETS
from verdicts.networks import gathered, random_network, train

PATTERNS = [
    aq.Full(), aq.Causal(), aq.Window(1), aq.Window(2), aq.Blocks(2), aq.Strided(2), aq.Fixed(3),
    aq.Star(1), aq.Global((0,)), aq.LogSparse(), aq.Dilated(1, 2), aq.Causal() & aq.Window(1),
    ~aq.Window(1), aq.PerHead(aq.Window(1), aq.Causal()), aq.Random(1, 0),
]  # fmt: skip
POSITIONS = [
    aq.NoPosition(), aq.Absolute(), aq.Sinusoidal(), aq.Rotary(), aq.ALiBi(), aq.RelativeBias(),
    aq.T5Bias(4, 3), aq.Shaw(2), aq.URPE(), aq.URPE(aq.NoPosition()), aq.URPE(aq.ALiBi()),
]  # fmt: skip


@st.composite
def designs(draw: st.DrawFn, /, **fixed: Any) -> aq.Design:
    """Small designs of every kind."""
    softmax = {"prob_map": "softmax", "sinks": draw(st.booleans())}
    other = {"prob_map": draw(st.sampled_from(["hardmax", "sparsemax", "entmax15"]))}
    options: dict[str, Any] = {
        "tokens": draw(st.integers(1, 6)),
        "patterns": tuple(draw(st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2))),
        "position": draw(st.sampled_from(POSITIONS)),
        "bos": draw(st.booleans()),
        "depth": draw(st.sampled_from([None, None, 1, 2, 3])),
        "feedforward": draw(st.sampled_from([True, True, True, False])),
        "final_norm": draw(st.sampled_from([None, None, None, None, "layernorm", "rmsnorm"])),
        **draw(st.sampled_from([softmax, softmax, other])),
    } | fixed
    return aq.Design(**options)


@given(designs(), st.sampled_from(NORMS), st.sampled_from(TARGETS))
@settings(max_examples=100, deadline=None)
def test_no_network_beats_a_witness(design: aq.Design, norm: str, target: str) -> None:
    verdict = aq.check(design, norm=norm, target=target)
    assert (verdict.witness is None) == (verdict.universal is not False)
    assert (verdict.certificate is None) == (verdict.universal is not True)
    if verdict.witness is None:
        return
    for seed in range(20):
        depth, dim = (1, 2, 3, 5, 8, 12)[seed % 6], (4, 8, 32)[seed % 3]
        model = random_network(design, seed, depth=depth, dim=dim)
        if seed % 7 == 0:  # a shallow one, one of middling depth, a deep one
            train(model, verdict.witness, steps=10)
        assert verdict.witness.replay(model) >= verdict.witness.bound * (1 - 1e-6)


@pytest.mark.parametrize(
    "design",
    [
        aq.Design(5, position=aq.RelativeBias()),
        aq.Design(5, position=aq.Rotary()),
        aq.Design(5, aq.Causal(), aq.NoPosition()),
        aq.Design(6, aq.Window(1), depth=2),
        aq.Design(6, aq.Blocks(2)),
        aq.Design(4, position=aq.NoPosition(), feedforward=False),
        aq.Design(4, final_norm="layernorm"),
        aq.Design(4, final_norm="rmsnorm"),
    ],
    ids=str,
)
@pytest.mark.parametrize("norm", NORMS)
def test_training_does_not_beat_a_witness(design: aq.Design, norm: str) -> None:
    """Networks that are trained on the very function come closer to it, not below the bound."""
    witness = aq.check(design, norm=norm).witness
    if norm == "lp" and witness is None:
        witness = aq.check(design).witness
    assert witness is not None
    model = random_network(design, 0, depth=2, dim=4)
    before, after = train(model, witness)
    # normed outputs have one and the same size, so that nothing can come closer to f = 1
    assert after < before or design.final_norm == "layernorm"
    assert witness.replay(model) >= witness.bound * (1 - 1e-6)


@given(designs(feedforward=True, final_norm=None), st.sampled_from(("all", "causal")))
@settings(max_examples=150, deadline=None)
def test_what_is_proved_gathers_the_sequence(design: aq.Design, target: str) -> None:
    certificate = aq.check(design, target=target).certificate
    if certificate is None:
        return
    assert certificate.verify()
    n = design.tokens
    x = torch.rand(n, dtype=torch.float64)
    held = gathered(design, certificate.layers, certificate.phase, x)
    wanted = torch.ones(n, n, dtype=torch.bool)
    wanted = wanted.tril() if target == "causal" else wanted
    torch.testing.assert_close(held[wanted], x.expand(n, n)[wanted])
