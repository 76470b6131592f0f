"""Padding in what an encoder reads changes nothing for the decoder that attends to it."""

from __future__ import annotations

from typing import Any

import torch

from anyseq.models.faults.entrance import first_apart, noted
from anyseq.models.faults.fault import Fault
from anyseq.models.faults.influence import influence, worst
from anyseq.models.faults.snippets import sequence, two_calls
from anyseq.models.faults.subject import Subject

_READ, _PADDED = 14, 4


def read_padding(subject: Subject) -> Fault | None:
    """A fault where an output of the decoder changes with what stands in a padded place of the
    sequence that the encoder reads."""
    if subject.part != "decoder" or "attention_mask" not in subject.takes:
        return None
    written, read = subject.draw(1, seed=3), subject.draw(1, seed=4, tokens=_READ)
    real = (torch.arange(_READ) < _READ - _PADDED).long()[None]

    def run(rows: torch.Tensor) -> torch.Tensor:
        told: dict[str, Any] = {"input_ids": rows, "attention_mask": real.expand(len(rows), -1)}
        return subject.run(written.expand(len(rows), -1), **told)

    effect = influence(subject, read, run) * (real == 0)
    if not (effect > 0).any():
        return None
    (i, j), size = worst(effect)
    changed = read.clone()
    changed[:, j] = subject.other(read)[:, j]
    with noted(subject) as met:
        run(read)
    with noted(subject) as again:
        run(changed)
    plain, other = (
        [one for one in one_run if one.gives.shape[1] == subject.tokens] for one_run in (met, again)
    )
    return Fault(
        "padding",
        f"output {i} of the decoder changes with what stands at token {j} of the sequence that the "
        "encoder reads, which is padding",
        module=first_apart(subject, plain, other, ((0, i), (0, i))),
        pair=(i, j),
        size=size,
        snippet=_snippet(subject, written, read, i, (j, int(changed[0, j]))),
        repair="pass the encoder's padding mask to the cross-attention of every layer "
        "(encoder_attention_mask)",
    )


def _snippet(
    subject: Subject, written: torch.Tensor, read: torch.Tensor, i: int, change: tuple[int, int]
) -> str:
    lines = [
        sequence(subject, read, "read"),
        sequence(subject, written, "written"),
        "changed = read.clone()",
        f"changed[0, {change[0]}] = {change[1]}",
        "real = torch.ones_like(read)",
        f"real[0, -{_PADDED}:] = 0",
    ]

    def call(name: str) -> str:
        given: dict[str, Any] = {
            "input_ids": name, "attention_mask": "real", "decoder_input_ids": "written",
            "use_cache": False,
        }  # fmt: skip
        told = ", ".join(f"{key}={value}" for key, value in given.items())
        return f"{subject.text}({told}){subject.output}"

    why = f"0 if output {i} does not depend on the padding"
    return two_calls("\n".join(lines), call("read"), call("changed"), f"[0, {i}]", why)
