"""How weak the shortest routes are, against routes that are enumerated one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from statistics import median

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import anyseq as aq
from anyseq.graph import Dilution, dilution
from verdicts.designs import designs

WINDOW = aq.Causal() & aq.Window(2)


def routes(design: aq.Design, j: int, i: int, layers: int) -> Iterator[Fraction]:
    """The product of 1 / (how many are attended to) of each route with so many steps."""
    if layers == 0:
        if i == j:
            yield Fraction(1)
        return
    pattern = design.cycle[(layers - 1) % len(design.cycle)]
    for head in dict.fromkeys(pattern.heads()):
        seen = head.mask(design.size)[i].nonzero()[:, 0].tolist()
        for middle in seen:
            for rest in routes(design, j, middle, layers - 1):
                yield rest / len(seen)


def by_hand(design: aq.Design, target: str) -> Dilution:
    """Its depth must be small."""
    assert design.depth is not None
    weights, weaker, bos = [], 0, design.bos
    for i in range(bos, design.size):
        for j in range(bos, i if target == "causal" else design.size):
            if i == j:
                continue
            sums = (sum(routes(design, j, i, layers)) for layers in range(1, design.depth + 1))
            weight = next((one for one in sums if one), Fraction(0))
            weights.append(weight)
            weaker += weight < Fraction(1, i + 1 if target == "causal" else design.size)
    share = weaker / len(weights)
    return Dilution(float(median(weights)), float(min(weights)), share, design.tokens)


def attends(design: aq.Design) -> bool:
    return all(
        layer.attends or isinstance(layer.mixer, aq.Average | aq.LinearAttention)
        for layer in design.layer_cycle[: design.depth]
    )


@given(data=st.data(), target=st.sampled_from(["all", "causal"]), mixers=st.booleans())
def test_routes_one_by_one(data: st.DataObject, target: str, mixers: bool) -> None:
    depth = data.draw(st.integers(1, 3))
    design = data.draw(designs(mixers=mixers, depth=depth))
    found = dilution(design, target)
    if design.tokens == 1 or not attends(design):
        assert found is None
        return
    expected = by_hand(design, target)
    assert found is not None
    assert found.tokens == expected.tokens
    assert found.median == pytest.approx(expected.median, rel=1e-12)
    assert found.smallest == pytest.approx(expected.smallest, rel=1e-12)
    assert found.weaker == pytest.approx(expected.weaker)


@given(data=st.data())
def test_any_depth_is_a_large_one(data: st.DataObject) -> None:
    design = data.draw(designs(depth=None))
    deep = replace(design, depth=300)
    for target in ("all", "causal"):
        assert dilution(design, target) == dilution(deep, target)


def test_what_is_known() -> None:
    assert dilution(aq.Design(8), "all") == Dilution(1 / 8, 1 / 8, 0.0, 8)
    causal = dilution(aq.Design(3, aq.Causal()), "causal")
    assert causal == Dilution(1 / 3, 1 / 3, 0.0, 3)
    hub = dilution(aq.Design(8, aq.Global((0,)) | aq.Window(0)), "all")
    assert hub is not None
    # through the hub: 1/2 of it, and it has 1/8 of each
    assert hub.smallest == pytest.approx(1 / 16)
    apart = dilution(aq.Design(4, aq.Blocks(2)), "all")
    assert apart == Dilution(0.0, 0.0, 8 / 12, 4)
    assert dilution(aq.Design(4, aq.Causal() & ~aq.Window(0), depth=9), "causal") is not None


def test_heads_that_see_different_tokens_add_up() -> None:
    design = aq.Design(4, aq.PerHead(aq.Blocks(2), aq.Full()))
    found = dilution(design, "all")
    assert found is not None
    assert found.smallest == 1 / 4
    assert dilution(aq.Design(4, aq.PerHead(aq.Full(), aq.Full())), "all") == dilution(
        aq.Design(4), "all"
    )


def test_numbers_too_small_for_float64() -> None:
    found = dilution(aq.Design(700, aq.Window(1)), "all")
    assert found is not None
    assert found.smallest == 0.0
    assert found.weaker > 0.9


def test_of_long_sequences_some_tokens_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    design = aq.Design(200, WINDOW, bos=True)
    every = dilution(design, "causal")
    monkeypatch.setattr("anyseq.graph.diluted._MOST_PAIRS", 200 * 50)
    some = dilution(design, "causal")
    assert every is not None
    assert some is not None
    assert (every.tokens, some.tokens) == (200, 50)
    assert some.weaker == pytest.approx(every.weaker, abs=0.05)
    assert some.smallest == every.smallest  # from the first token to the last
    assert np.log(some.median) == pytest.approx(np.log(every.median), rel=0.1)
