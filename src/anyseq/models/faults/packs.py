"""Ways to say which tokens of a sequence belong to which document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from anyseq.models.faults.padding import first_position
from anyseq.models.faults.rule import Asked
from anyseq.models.faults.snippets import sequence
from anyseq.models.faults.subject import Subject
from anyseq.patterns import Causal, Full

_VARLEN = "cu_seqlens"


class Pack:
    """Two documents in one sequence, and one way to say so.

    told: the arguments that say it. code: Python for each of them. x: the sequence.
    optional: whether families may ignore it. alone: whether each document ought to give what it
    gives by itself.
    """

    def __init__(self, name: str, subject: Subject) -> None:
        self.name, self.subject, self.optional, self.alone = name, subject, False, True
        self.x = subject.draw(seed=4)
        tokens = subject.tokens
        self.first = tokens // 2 - 1
        self.ids = (torch.arange(tokens) >= self.first).long()[None]
        self.told: dict[str, Any] = {}
        self.code: dict[str, list[str]] = {}

    def run(self, rows: torch.Tensor) -> torch.Tensor:
        """The outputs of sequences packed in this way."""
        if self.name == _VARLEN:
            return torch.cat([self.subject.run(row[None], **self.told) for row in rows])
        told = {name: one.expand(len(rows), *one.shape[1:]) for name, one in self.told.items()}
        return self.subject.run(rows, **told)

    def by_themselves(self) -> torch.Tensor:
        """The outputs of the two documents, each run by itself."""
        parts = (self.x[:, : self.first], self.x[:, self.first :])
        return torch.cat([self.subject.run(part) for part in parts], 1)

    def tell_positions(self) -> None:
        """Positions start again with the second document, as the family counts them."""
        tokens, start = self.subject.tokens, first_position(self.subject, self.x)
        places = torch.cat([torch.arange(self.first), torch.arange(tokens - self.first)])[None]
        self.told["positions"] = places + start
        line = (
            f"positions = torch.cat([torch.arange({self.first}), "
            f"torch.arange({tokens - self.first})])[None]"
        )
        self.code["positions"] = [line + f" + {start}" * (start > 0)]

    def lines(self) -> list[str]:
        """Python that makes the sequence and these arguments."""
        return [
            sequence(self.subject, self.x),
            *(line for one in self.code.values() for line in one),
        ]

    def options(self) -> dict[str, Any]:
        """The name of the value of each argument, in that Python."""
        names = {"attention_mask": "mask", _VARLEN: "starts"}
        return {name: names.get(name, name) for name in self.told}


def packs(asked: Asked) -> Iterator[Pack]:
    """The ways that a model supports."""
    subject = asked.subject
    if subject.part:
        return
    if subject.name_of("documents") is not None:
        yield _by_ids(subject)
    if _VARLEN in subject.takes:
        yield _by_places(subject)
    if subject.name_of("positions") == "position_ids":
        yield by_positions(subject)
    if subject.hugging_face and "attention_mask" in subject.takes:
        yield _by_mask(asked)


def by_positions(subject: Subject) -> Pack:
    """Positions that restart, and no mask."""
    pack = Pack("positions", subject)
    pack.optional = True
    pack.tell_positions()
    return pack


def _by_ids(subject: Subject) -> Pack:
    pack = Pack("documents", subject)
    pack.told = {"documents": pack.ids}
    line = f"documents = (torch.arange({subject.tokens}) >= {pack.first}).long()[None]"
    pack.code = {"documents": [line]}
    return pack


def _by_places(subject: Subject) -> Pack:
    """The places where documents begin, and the number of tokens."""
    pack = Pack(_VARLEN, subject)
    places = [0, pack.first, subject.tokens]
    pack.told = {_VARLEN: torch.tensor(places, dtype=torch.int32)}
    pack.code = {_VARLEN: [f"starts = torch.tensor({places}, dtype=torch.int32)"]}
    return pack


def _by_mask(asked: Asked) -> Pack:
    """A mask of four dimensions; it takes the place of the windows that a model has itself."""
    subject, causal = asked.subject, asked.claims.causal is True
    pack = Pack("mask", subject)
    apart = pack.ids[0][:, None] != pack.ids[0]
    if causal:
        apart = apart | torch.ones_like(apart).triu(1)
    lowest = torch.finfo(subject.dtype).min
    mask = torch.zeros(1, 1, *apart.shape, dtype=subject.dtype)
    pack.told = {"attention_mask": mask.masked_fill(apart, lowest)}
    later = " | torch.ones(len(ids), len(ids)).triu(1).bool()" * causal
    pack.code["attention_mask"] = [
        f"ids = (torch.arange({subject.tokens}) >= {pack.first}).long()",
        f"hidden = (ids[:, None] != ids){later}",
        "mask = torch.zeros(1, 1, *hidden.shape, dtype=model.dtype)",
        "mask = mask.masked_fill(hidden, torch.finfo(model.dtype).min)",
    ]
    if subject.name_of("positions") is not None:
        pack.tell_positions()
    pack.alone = all(one.pattern in (Causal(), Full()) for one in asked.claims.layers)
    return pack
