"""Where the theorems decide everything, `check` never answers None."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
from hypothesis import given, settings

import anyseq as aq
from anyseq.probability import ProbMap, TopK
from verdicts.designs import designs

MAPS: list[str | ProbMap] = ["softmax", "hardmax", "sparsemax", "entmax15", TopK(1), TopK(2)]
FREE = [
    aq.NoPosition(), aq.RelativeBias(), aq.Rotary(), aq.T5Bias(4, 3), aq.URPE(),
    aq.URPE(aq.NoPosition()),
]  # fmt: skip


@given(
    designs(feedforward=True, final_norm=None, depth=None),
    st.sampled_from(MAPS),
    st.sampled_from(["all", "causal"]),
)
@settings(max_examples=300, deadline=None)
def test_in_sup_norm(design: aq.Design, prob_map: str | ProbMap, target: str) -> None:
    """Theorem 5.1. Top-k with T5Bias, Shaw and ALiBi is decided for these patterns, not for all."""
    design = replace(design, prob_map=prob_map, sinks=False)
    assert aq.check(design, target=target).universal is not None


@given(
    designs(feedforward=True, final_norm=None, depth=None, prob_map="softmax"),
    st.sampled_from(FREE),
    st.sampled_from(["all", "causal"]),
)
@settings(max_examples=300, deadline=None)
def test_in_lp(design: aq.Design, position: aq.Position, target: str) -> None:
    """Theorem 5.2: softmax with a free bias for each label, none, or gains."""
    design = replace(design, position=position)
    assert aq.check(design, norm="lp", target=target).universal is not None
