"""Where the theorems decide everything, `check` never answers None."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
import torch
from hypothesis import given, settings

import anyseq as aq
from anyseq.probability import ProbMap, TopK
from verdicts.designs import designs

MAPS: list[str | ProbMap] = ["softmax", "hardmax", "sparsemax", "entmax15", TopK(2), TopK(3)]
FREE = [
    aq.NoPosition(), aq.RelativeBias(), aq.Rotary(), aq.T5Bias(4, 3), aq.URPE(),
    aq.URPE(aq.NoPosition()),
]  # fmt: skip


@given(
    designs(feedforward=True, final_norm=None, depth=None),
    st.sampled_from(MAPS),
    st.sampled_from(["all", "causal"]),
    st.lists(st.integers(0, 2**49 - 1), max_size=3),
)
@settings(max_examples=600, deadline=None)
def test_in_sup_norm(
    design: aq.Design, prob_map: str | ProbMap, target: str, masks: list[int]
) -> None:
    """Theorem 5.1, for named patterns and for masks whose entries are the bits of a number."""
    design = replace(design, prob_map=prob_map)
    if masks:
        n = design.tokens + design.bos
        bits = [[mask >> bit & 1 for bit in range(n * n)] for mask in masks]
        patterns = tuple(torch.tensor(row).bool().view(n, n) for row in bits)
        design = replace(design, patterns=patterns)
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
