"""Models attend as they declare after `hf.use`, and as the pattern says that was put on."""

from collections.abc import Callable

import pytest

import anyseq as aq
from anyseq.models import Audit, audit
from hf.tiny import SPECIALS, attending, make

Fixture = Callable[..., Audit]
FAMILIES = attending("bert", "gpt2", "llama", "t5", *SPECIALS)


@pytest.mark.parametrize("family", FAMILIES)
def test_with_our_attention(family: str, anyseq_audit: Fixture) -> None:
    found = anyseq_audit(aq.hf.use(make(family)))
    assert any(one.name.endswith("implementations") for one in (*found.checked, *found.skipped))


@pytest.mark.parametrize("family", FAMILIES)
def test_with_a_pattern(family: str, anyseq_audit: Fixture) -> None:
    found = anyseq_audit(aq.hf.use(make(family), aq.Window(2)))
    assert {"layers", "padding"} <= {one.name.split(": ")[-1] for one in found.checked}


def test_a_pattern_by_layer_and_one_that_is_another(anyseq_audit: Fixture) -> None:
    model = aq.hf.use(make("llama"), {1: aq.Window(2)})
    anyseq_audit(model)
    anyseq_audit(model, aq.Design(30, (aq.Causal(), aq.Causal() & aq.Window(2)), aq.Rotary()))
    found = audit(model, "causal & window(2)")
    assert [(one.rule, one.layers) for one in found.faults] == [("window", (1,))]
    found = audit(model, "causal")
    assert [(one.rule, one.layers) for one in found.faults] == [("lost", (2,))]
