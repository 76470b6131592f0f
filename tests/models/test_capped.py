"""Capped scores with a bias tell apart what plain ones do not: nothing false may be refuted."""

from __future__ import annotations

import torch

import anyseq as aq
from anyseq.graph import refine
from anyseq.models.capped import CAPPED

_FIRST = {1: [0], 2: [2], 3: [3], 4: [0], 5: [5], 6: [6]}
"""Vertex 0 is BOS. Tokens at 1 and 4 see it, and so differ from the others."""
_SECOND = {1: [1], 2: [2], 3: [1, 2, 4, 5], 4: [4], 5: [5], 6: [1, 2]}
"""3 sees one token of both kinds before and one of both kinds after it, 6 only before it: with
softmax and a bias for "before" and "after" both see halves."""


def mask(seen: dict[int, list[int]]) -> torch.Tensor:
    found = torch.zeros(7, 7, dtype=torch.bool)
    found[0, 0] = True
    for i, keys in seen.items():
        found[i, keys] = True
    return found


DESIGN = aq.Design(6, (mask(_FIRST), mask(_SECOND)), aq.T5Bias(4, 8), bos=True, depth=2)


def network(softcap: float | None) -> aq.nn.Transformer:
    torch.manual_seed(0)
    model = aq.nn.Transformer(DESIGN, 16, depth=2, heads=8, norm="none", softcap=softcap).double()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0, 0.3)
    return model


def apart(model: aq.nn.Transformer) -> float:
    with torch.no_grad():
        out = model(torch.full((1, 6, 16), 0.3, dtype=torch.float64))[0]
    return float((out[2] - out[5]).abs().max() / out.abs().max())


def test_a_cap_after_a_bias_tells_more_apart() -> None:
    found = refine(DESIGN)
    assert found.classes[2] == found.classes[5]
    assert apart(network(None)) < 1e-12
    assert apart(network(1.0)) > 1e-3


def test_what_it_may_tell_apart_is_not_refuted() -> None:
    plain, capped = aq.read(network(None)), aq.read(network(1.0))
    assert plain.design is not None
    assert capped.design is not None
    assert plain.unproved == ()
    assert capped.unproved == (CAPPED,)
    classes = refine(capped.design).limit
    assert classes[2] != classes[5]


def test_without_a_bias_a_cap_changes_nothing() -> None:
    design = aq.Design(6, position=aq.Rotary())
    model = aq.nn.Transformer(design, 16, depth=2, heads=2, softcap=5.0)
    assert aq.read(model).unproved == ()
    verdict = aq.check(model, target="causal")
    assert verdict.universal is False
    assert verdict.witness is not None
    assert verdict.witness.name == "W1"


def test_with_a_bias_a_cap_proves_nothing() -> None:
    design = aq.Design(6, position=aq.RelativeBias(), bos=True)
    for softcap in (None, 5.0):
        model = aq.nn.Transformer(design, 16, depth=4, heads=2, softcap=softcap, vocab=9)
        verdict = aq.check(model, target="all")
        assert verdict.universal is None
        assert (CAPPED in verdict.reason) == (softcap is not None)
