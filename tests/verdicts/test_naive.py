"""The graph of a design against brute force, for few tokens and masks of every kind."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import torch
from hypothesis import given, settings

import anyseq as aq
from anyseq.graph import hamiltonian_path, reach, refine, symmetry
from anyseq.positions import Place
from anyseq.verdicts.verify_places import looks_different
from verdicts import naive
from verdicts.designs import PATTERNS, positions_for


@st.composite
def small(draw: st.DrawFn, /, most: int = 6, **fixed: Any) -> aq.Design:
    tokens, bos = draw(st.integers(1, most)), draw(st.booleans())
    size = tokens + bos

    def pattern() -> aq.Pattern:
        if draw(st.booleans()):
            return draw(st.sampled_from(PATTERNS))
        bits = draw(st.lists(st.booleans(), min_size=size**2, max_size=size**2))
        return aq.FromMask(torch.tensor(bits).view(size, size))

    def layer(positions: list[aq.Position]) -> dict[str, Any]:
        sinks = draw(st.booleans())
        maps = ["softmax"] if sinks else ["softmax", "softmax", "hardmax", "sparsemax", "entmax15"]
        position = draw(st.sampled_from(positions))
        return {"position": position, "prob_map": draw(st.sampled_from(maps)), "sinks": sinks}

    positions, many = positions_for(tokens, bos), draw(st.integers(1, 3))
    depth = draw(st.sampled_from([None, None, 1, 2]))
    if draw(st.booleans()):
        options = layer(positions) | {"depth": depth} | fixed
        return aq.Design(tokens, tuple(pattern() for _ in range(many)), bos=bos, **options)
    inside = [one for one in positions if Place.INPUT not in one.acts_in]
    layers = [aq.Layer(pattern(), **layer(inside) | fixed) for _ in range(many)]
    start = draw(st.sampled_from([aq.NoPosition(), aq.NoPosition(), aq.Absolute()]))
    return aq.Design(tokens, layers=layers, position=start, bos=bos, depth=depth)


@given(small(most=7), st.sampled_from(["all", "causal"]))
@settings(max_examples=300, deadline=None)
def test_reach(design: aq.Design, target: str) -> None:
    found, bos, n = reach(design, target), int(design.bos), design.tokens
    wanted = [(k, j) for k in range(n) for j in range(n) if target == "all" or j <= k]
    for phase in range(len(design.cycle)):
        layers = found.layers_after(phase)
        history = naive.reach(design, phase)
        complete = [all(held[k + bos][j + bos] for k, j in wanted) for held in history]
        assert layers == (complete.index(True) if True in complete else None)
    history = naive.reach(design)
    if found.unreached is not None:
        k, j = found.unreached
        assert (k, j) in wanted
        assert not history[-1][k + bos][j + bos]
    assert (found.unreached is None) == found.holds
    for k, j in found.last:
        assert found.layers is not None
        assert history[found.layers][k + bos][j + bos]
        assert not history[found.layers - 1][k + bos][j + bos]
    if found.layers:
        assert found.last


@given(small())
@settings(max_examples=400, deadline=None)
def test_refinement(design: aq.Design) -> None:
    found = refine(design)
    for layer in design.layer_cycle:
        alibi = isinstance(getattr(layer.position, "base", layer.position), aq.ALiBi)
        if alibi and layer.probability.name != "softmax":
            return  # only bounds are known, see the tests of the graph
    depth = design.depth
    classes, rounds = naive.refine(design, depth)
    assert [list(found.classes).index(c) for c in found.classes] == [
        classes.index(c) for c in classes
    ]
    assert list(found.limit) == list(found.classes)
    assert found.rounds == rounds


@given(small(most=5, prob_map="softmax"), st.sampled_from(["all", "causal"]))
@settings(max_examples=250, deadline=None)
def test_symmetry(design: aq.Design, target: str) -> None:
    if not reach(design, target).holds:
        return
    found = symmetry(design, target)
    assert found.rigid is naive.isomorphisms(design, target)


@given(small(most=6))
@settings(max_examples=200, deadline=None)
def test_path(design: aq.Design) -> None:
    found = hamiltonian_path(design)
    assert found.exists is naive.has_path(design)
    if found.order is not None:
        assert sorted(found.order) == list(range(design.tokens))
        masks = [mask for heads in naive.masks(design) for mask in heads]
        bos = int(design.bos)
        for before, after in pairwise(found.order.tolist()):
            assert any(mask[after + bos][before + bos] for mask in masks)


@given(small(most=6), st.sampled_from(["sup", "lp"]), st.sampled_from(["all", "causal"]))
@settings(max_examples=250, deadline=None)
def test_certificates_are_confirmed(design: aq.Design, norm: str, target: str) -> None:
    """By the second opinion, which shares nothing with the rules."""
    certificate = aq.check(design, norm=norm, target=target).certificate
    assert certificate is None or certificate.verify()


@given(small(most=5, prob_map="softmax"), st.sampled_from(["all", "causal"]))
@settings(max_examples=150, deadline=None)
def test_the_second_opinion_on_places(design: aq.Design, target: str) -> None:
    if reach(design, target).holds:
        assert looks_different(design) is naive.isomorphisms(design, target)
