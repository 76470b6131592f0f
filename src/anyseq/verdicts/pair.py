"""An encoder and a decoder that attends to it: the decoder's outputs as functions of both inputs.

Every layer of the decoder also attends, without positions, to all that the last layer of the
encoder gives. Asked about are the functions f_i of all tokens of the encoder and of tokens 0, ...,
i of the decoder. The argument stands in docs/theorems.md, "Encoder and decoder".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from anyseq.design import Design
from anyseq.verdicts.certificate import Certificate
from anyseq.verdicts.question import Facts, Question
from anyseq.verdicts.verdict import Finding
from anyseq.verdicts.verify_places import tells_keys, told_apart

_THEOREM = "Theorem 5.5"


@dataclass(frozen=True, eq=False)
class PairCertificate:
    """encoder: a design whose tokens know their positions after `rounds` layers, or, if that is
    None, one that tells them apart in `full_layer` unless all tokens are equal. decoder: as for a
    design by itself."""

    encoder: Design
    rounds: int | None
    full_layer: int | None
    decoder: Certificate

    def verify(self) -> bool:
        """Check both parts again, by code that shares nothing with the rules."""
        if not self.decoder.verify():
            return False
        if self.rounds is not None:
            return told_apart(self.encoder, self.rounds)
        if self.full_layer not in range(1, len(self.encoder.layer_cycle) + 1):
            return False
        number = (self.full_layer or 0) % len(self.encoder.layer_cycle)
        masks = [head.mask(self.encoder.size) for head in self.encoder.cycle[number].heads()]
        everything = any(bool(mask.all()) for mask in masks)
        return everything and tells_keys(self.encoder, number, by_windows=False)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready summary."""
        encoder = {"rounds": self.rounds, "full_layer": self.full_layer}
        return {"kind": "pair", "encoder": encoder, "decoder": self.decoder.to_dict()}

    def __str__(self) -> str:
        return f"the decoder reads the encoder's tokens key by key; in the decoder, {self.decoder}"


def encoder_told(encoder: Design) -> tuple[Finding, int | None, int | None]:
    """Whether the decoder can learn every token of the encoder with its position; the rounds after
    which the encoder knows positions, or a full layer that tells them unless all tokens are equal.
    """
    question = Question(Facts(replace(encoder, head=True)), "sup", "all")
    rule, why = "encoder", question.uncovered
    smooth = all(map(question.is_smooth, question.layers))
    if why is None and not (smooth or question.knows_positions):
        why = "its maps jump"
    if why is not None:
        return Finding(rule, None, why, _THEOREM), None, None
    if question.knows_positions or question.refinement.discrete:
        rounds = 0 if question.knows_positions else question.refinement.rounds
        return Finding(rule, True, "its tokens are told their positions", _THEOREM), rounds, None
    cycle = encoder.layer_cycle
    for layer in question.full_layers:
        if question.names_keys(cycle[layer % len(cycle)]) and (
            encoder.depth is None or layer < encoder.depth
        ):
            saw = "its tokens are told apart unless all are equal; then one tells all"
            return Finding(rule, True, saw, _THEOREM), None, layer
    saw = "whether it tells the order of its tokens is not known"
    return Finding(rule, None, saw, _THEOREM), None, None
