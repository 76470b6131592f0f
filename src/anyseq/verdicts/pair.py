"""An encoder and a decoder that attends to it: the decoder's outputs as functions of both inputs.

Every layer of the decoder also attends, without positions, to all that the last layer of the
encoder gives. The question is about functions f_i of all tokens of the encoder and of tokens 0,
..., i of the decoder. The proof is in docs/theorems.md, "Encoder and decoder".
"""

from __future__ import annotations

from dataclasses import replace

from anyseq.design import Design
from anyseq.verdicts.certificate import Encoder
from anyseq.verdicts.question import Facts, Question
from anyseq.verdicts.verdict import Finding, Verdict, no_fixes


def with_encoder(verdict: Verdict, design: Design) -> Verdict:
    """The verdict on a decoder, as one on the decoder behind that encoder. What the decoder cannot
    do it cannot do behind any encoder."""
    encoder, saw = _read_by_a_decoder(design)
    finding = Finding("encoder", True if encoder is not None else None, saw, "Theorem 5")
    verdict = replace(verdict, findings=(*verdict.findings, finding), _fixes=no_fixes)
    proof = verdict.certificate
    if proof is None:
        return verdict
    if encoder is None or proof.kind != "gather":
        reason = f"of the encoder: {saw}" if encoder is None else "of the encoder: in L^p"
        return replace(verdict, universal=None, reason=reason, certificate=None)
    return replace(verdict, certificate=replace(proof, encoder=encoder))


def _read_by_a_decoder(design: Design) -> tuple[Encoder | None, str]:
    """How a decoder can obtain every token of the encoder with its position, if that is known."""
    # a linear map follows the last norm: that to the decoder's keys and values
    question = Question(Facts(replace(design, head=True)), "sup", "all")
    if question.uncovered is not None:
        return None, question.uncovered
    if question.knows_positions:
        return Encoder(design, rounds=0), "its tokens are given their positions"
    if not all(map(question.is_smooth, question.layers)):
        return None, "its maps jump, and no theorem covers that"
    if question.refinement.discrete:
        rounds = question.refinement.rounds
        return Encoder(design, rounds=rounds), f"positions are known after layer {rounds:,}"
    cycle = design.layer_cycle
    for layer in question.full_layers:
        within = design.depth is None or layer < design.depth
        if within and question.names_keys(cycle[layer % len(cycle)]):
            saw = "its tokens are told apart unless all are equal; then any of them determines all"
            return Encoder(design, full_layer=layer % len(cycle)), saw
    return None, "whether a decoder can obtain the order of its tokens is not known"
