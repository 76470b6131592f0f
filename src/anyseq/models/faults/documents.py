"""Documents that are packed into one sequence do not see each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from anyseq.models.faults.entrance import entrance
from anyseq.models.faults.fault import Fault
from anyseq.models.faults.influence import influence, worst
from anyseq.models.faults.rule import Asked, NotChecked, Note
from anyseq.models.faults.snippets import call, sequence, two_calls
from anyseq.models.faults.subject import Subject

_RESTARTS = (
    "position_ids that restart do not keep packed documents apart in this family: give a mask of "
    "four dimensions as well"
)
_MIXED = (
    "no mask keeps packed documents apart here: beside attention it has layers that carry content "
    "along the whole sequence"
)


def documents(asked: Asked) -> Iterator[Fault | Note]:
    """Two documents in one sequence, told by ids of documents, by positions that restart, and by a
    mask of four dimensions."""
    subject, looked = asked.subject, False
    for pack in _ways(subject):
        try:
            leak = _leak(subject, pack)
        except Exception:  # it takes nothing of the kind
            continue
        looked = True
        if leak is None:
            continue
        if pack.name == "mask" and any(one.attends is False for one in asked.claims.layers):
            yield Note(_MIXED)
            continue
        if pack.optional and _is_the_familys_way(asked, pack):
            yield Note(_RESTARTS)
            continue
        (i, j), size = leak
        yield Fault(
            "documents",
            f"output {i} changes with token {j} of another document, {pack.says}",
            (), entrance(subject, subject.draw(seed=4), (i, j), **pack.told), (i, j), size,
            _snippet(subject, pack, (i, j)), pack.repair,
        )  # fmt: skip
    if not looked:
        raise NotChecked("its forward takes nothing that tells documents apart")


class _Pack:
    """One way to say which tokens belong together. optional: whether families may ignore it."""

    def __init__(self, name: str, subject: Subject) -> None:
        tokens = subject.tokens
        first = tokens // 2 - 1
        ids = (torch.arange(tokens) >= first).long()[None]
        places = torch.cat([torch.arange(first), torch.arange(tokens - first)])[None]
        self.name, self.ids, self.optional = name, ids, name == "positions"
        self.told: dict[str, Any] = {}
        if name == "documents":
            self.told = {"documents": ids}
            self.says, self.repair = (
                "though their ids say so",
                "hide other documents in every layer",
            )
        elif name == "positions":
            self.told = {"positions": places}
            self.says = "though position_ids restart and no mask is given"
            self.repair = (
                "build the mask from position_ids where no mask is given (position_ids handed to "
                "create_causal_mask), or give a mask of four dimensions"
            )
        else:
            apart = (ids[0][:, None] != ids[0]) | torch.ones(tokens, tokens).triu(1).bool()
            lowest = torch.finfo(subject.dtype).min
            mask = torch.zeros(tokens, tokens, dtype=subject.dtype).masked_fill(apart, lowest)
            self.told = {"attention_mask": mask[None, None]}
            if subject.name_of("positions") is not None:
                self.told["positions"] = places
            self.says = "though a mask of four dimensions hides it"
            self.repair = "hand the caller's mask to the attention of every layer as it is"


def _ways(subject: Subject) -> Iterator[_Pack]:
    if subject.part:
        return
    if subject.name_of("documents") is not None:
        yield _Pack("documents", subject)
    if subject.name_of("positions") == "position_ids":
        yield _Pack("positions", subject)
    if subject.hugging_face and "attention_mask" in subject.takes:
        yield _Pack("mask", subject)


def _leak(subject: Subject, pack: _Pack) -> tuple[tuple[int, int], float] | None:
    """The pair of tokens of two documents with the largest effect, and its size."""

    def run(rows: torch.Tensor) -> torch.Tensor:
        told = {name: one.expand(len(rows), *one.shape[1:]) for name, one in pack.told.items()}
        return subject.run(rows, **told)

    effect = influence(subject, subject.draw(seed=4), run)
    ids = pack.ids[0]
    effect = effect * (ids[:, None] != ids)
    return worst(effect) if (effect > 0).any() else None


def _is_the_familys_way(asked: Asked, pack: _Pack) -> bool:
    """Whether transformers' own model of this config does the same."""
    if asked.healthy is None:
        return not asked.subject.hugging_face
    try:
        return _leak(asked.healthy, _Pack(pack.name, asked.healthy)) is not None
    except Exception:  # its own model cannot be asked
        return True


def _snippet(subject: Subject, pack: _Pack, pair: tuple[int, int]) -> str:
    i, j = pair
    x = subject.draw(seed=4)
    new = int(subject.other(x)[0, j]) if subject.features is None else "torch.randn_like(x[0, 0])"
    first = int((pack.ids[0] == 0).sum())
    lines = [sequence(subject, x), "changed = x.clone()", f"changed[0, {j}] = {new}"]
    options: dict[str, Any] = {}
    if "documents" in pack.told:
        lines.append(f"documents = (torch.arange({subject.tokens}) >= {first}).long()[None]")
        options["documents"] = "documents"
    if "positions" in pack.told:
        lines.append(
            f"positions = torch.cat([torch.arange({first}), "
            f"torch.arange({subject.tokens - first})])[None]"
        )
        options["positions"] = "positions"
    if "attention_mask" in pack.told:
        lines += [
            f"ids = (torch.arange({subject.tokens}) >= {first}).long()",
            "hidden = (ids[:, None] != ids) | torch.ones(len(ids), len(ids)).triu(1).bool()",
            "low = torch.finfo(model.dtype).min",
            "mask = torch.where(hidden, low, 0.0).to(model.dtype)[None, None]",
        ]
        options["attention_mask"] = "mask"
    return two_calls(
        "\n".join(lines), call(subject, **options), call(subject, "changed", **options),
        f"[0, {i}]", f"0 if output {i} does not see the other document",
    )  # fmt: skip
