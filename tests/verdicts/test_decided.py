"""Where the theorems decide everything, `check` never answers None."""

from __future__ import annotations

from dataclasses import replace
from math import lcm

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


def with_patterns(design: aq.Design, patterns: list[torch.Tensor]) -> aq.Design:
    """The same with these patterns in turn, beside whatever else its layers have in turn."""
    cycle = design.layer_cycle
    return design.with_layers(
        [
            replace(cycle[i % len(cycle)], pattern=patterns[i % len(patterns)])
            for i in range(lcm(len(cycle), len(patterns)))
        ]
    )


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
    """Theorem 1, for named patterns and for masks whose entries are the bits of a number."""
    layers = [replace(layer, prob_map=prob_map) for layer in design.layer_cycle]
    design = design.with_layers(layers)
    if masks:
        n = design.tokens + design.bos
        bits = [[mask >> bit & 1 for bit in range(n * n)] for mask in masks]
        design = with_patterns(design, [torch.tensor(row).bool().view(n, n) for row in bits])
    assert aq.check(design, target=target).universal is not None


@given(
    designs(feedforward=True, final_norm=None, depth=None, prob_map="softmax"),
    st.lists(st.sampled_from(FREE), min_size=1, max_size=2),
    st.sampled_from(["all", "causal"]),
)
@settings(max_examples=300, deadline=None)
def test_in_lp(design: aq.Design, positions: list[aq.Position], target: str) -> None:
    """Theorem 2: softmax with a free bias for each label, none, or gains, in layers in turn."""
    layers = [
        replace(layer, position=positions[i % len(positions)])
        for i, layer in enumerate(design.layer_cycle)
    ]
    design = design.with_layers(layers, position=aq.NoPosition())
    assert aq.check(design, norm="lp", target=target).universal is not None
