"""Advice: what a model does with identical tokens."""

from __future__ import annotations

from collections.abc import Iterator

from anyseq.models.faults.fault import Fault
from anyseq.models.faults.rule import Asked, NotChecked, Note


def identical(asked: Asked) -> Iterator[Fault | Note]:
    """A model that gives the same output for each of identical tokens cannot count them; a first
    token of another kind, such as BOS, changes that."""
    subject = asked.subject
    if asked.claims.causal is not True:
        raise NotChecked("only causal models need a first token of another kind")
    x = subject.draw(seed=7)[:, :1].expand(
        -1, subject.tokens, *[-1] * (subject.features is not None)
    )
    out = subject.run(x.contiguous())
    if not (subject.differ(out, out[:, :1].expand_as(out)) > 0).any():
        yield Note(
            "on identical tokens all outputs are equal: without a BOS token first the model cannot "
            "distinguish positions, nor count tokens; have the tokenizer add one, as in training"
        )
