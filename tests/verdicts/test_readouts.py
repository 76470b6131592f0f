"""Certificates of one output: what is no proof is not confirmed."""

from __future__ import annotations

from dataclasses import replace

import pytest

import anyseq as aq

LAST = aq.Design(6, aq.Causal(), aq.Rotary(), readout="last")
WINDOWS = aq.Design(6, "causal & window(2)", aq.NoPosition(), readout="last")


def proof_of(design: aq.Design) -> aq.Certificate:
    certificate = aq.check(design, target="causal").certificate
    assert certificate is not None
    assert certificate.kind == "readout"
    return certificate


@pytest.mark.parametrize("design", [LAST, WINDOWS, replace(LAST, depth=2)], ids=str)
def test_proofs_are_confirmed(design: aq.Design) -> None:
    assert proof_of(design).verify()


PLANTED = {
    "a map that jumps": replace(LAST, prob_map="hardmax"),
    "slopes that leave keys without weight": replace(
        LAST, position=aq.ALiBi(), prob_map="sparsemax"
    ),
    "labels that two keys share": replace(LAST, patterns=aq.Full(), position=aq.T5Bias(4, 3)),
    "a window with a gap": replace(WINDOWS, patterns=aq.Causal() & aq.Dilated(2, 2)),
    "windows, at a given depth": replace(WINDOWS, depth=9),
    "all outputs are read": replace(LAST, readout="all"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_errors_are_not(name: str) -> None:
    start = WINDOWS if "window" in name else LAST
    assert not replace(proof_of(start), design=PLANTED[name]).verify()


def test_too_few_layers_are_not() -> None:
    proof = proof_of(WINDOWS)
    assert not replace(proof, layers=1).verify()
    assert not replace(proof, useful=()).verify()
