"""Runs are reproducible, and rows of a batch do not influence each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from anyseq.models.faults.entrance import first_apart, noted
from anyseq.models.faults.fault import Fault
from anyseq.models.faults.rule import Asked, Note
from anyseq.models.faults.snippets import call, sequence, two_calls
from anyseq.models.faults.subject import Subject

_ROWS = 3
_Run = tuple[torch.Tensor, dict[str, Any]]  # rows, and what the model is told of them


def random(asked: Asked) -> Iterator[Fault | Note]:
    """Two runs of a model in evaluation mode, with other random numbers, are equal."""
    subject = asked.subject
    x = subject.draw()
    with noted(subject) as met:
        first = subject.run(x, seed=0)
    for seed in (0, 1):
        with noted(subject) as again:
            effect = subject.differ(first, subject.run(x, seed=seed))
        if (effect > 0).any():
            subject.steady = False
            token = int(effect[0].argmax())
            why = "state kept from the previous run" if seed == 0 else "chance"
            yield Fault(
                "random",
                f"in evaluation mode output {token} differs from run to run, by {why}",
                module=first_apart(subject, met, again, ((0, token), (0, token))),
                pair=(token, token),
                size=float(effect.max()),
                snippet=_snippet(subject, x),
                repair="look for dropout or random masks that ignore evaluation mode, and "
                "for state kept between calls",
            )
            return


def _snippet(subject: Subject, x: torch.Tensor) -> str:
    line = call(subject)
    before = f"{sequence(subject, x)}\nmodel.eval()"
    return two_calls(before, line, line, "", "0 if both runs are equal")


def rows(asked: Asked) -> Iterator[Fault | Note]:
    """Other content, or padding, in other rows of a batch changes neither the first row nor the
    last."""
    subject = asked.subject
    for looked in (0, _ROWS - 1):
        found = _by_content(subject, looked) or _by_padding(subject, looked)
        if found is not None:
            subject.batched = False
            yield found
            return


def _by_content(subject: Subject, looked: int) -> Fault | None:
    x = subject.draw(_ROWS)
    changed = subject.other(x)
    changed[looked] = x[looked]
    found = _apart(subject, looked, (x, {}), (changed, {}))
    if found is None:
        return None
    lines = f"{sequence(subject, x)}\nchanged = x.flip(1)\nchanged[{looked}] = x[{looked}]"
    return _influence(
        "content", looked, found, (lines, call(subject), call(subject, "changed")),
        "look for means, norms or capacities that are taken over the batch",
    )  # fmt: skip


def _by_padding(subject: Subject, looked: int) -> Fault | None:
    name = subject.name_of("real")
    if name is None:
        return None
    x = subject.draw(_ROWS)
    real = torch.ones(x.shape[:2], dtype=torch.bool)
    padded = real.clone()
    padded[:, -(subject.tokens // 4) :] = False
    padded[looked] = True
    found = _apart(subject, looked, (x, {"real": real}), (x, {"real": padded}))
    if found is None:
        return None
    made = f"{sequence(subject, x)}\nreal = torch.ones(x.shape[:2]).bool()\n"
    made += f"padded = real.clone()\npadded[:, -{subject.tokens // 4}:] = False\n"
    made += f"padded[{looked}] = True"
    form = "~{}" if name.endswith("key_padding_mask") else "{}"
    form += ".long()" * subject.hugging_face
    calls = (call(subject, real=form.format(told)) for told in ("real", "padded"))
    return _influence(
        "padding", looked, found, (made, *calls),
        "give each row of the batch its own mask, and positions of its own",
    )  # fmt: skip


def _apart(subject: Subject, looked: int, one: _Run, other: _Run) -> tuple[int, float, str] | None:
    """The token of the row whose outputs differ most between two runs, by how much, and the part
    by which the other rows come in; None if none differ."""
    with noted(subject) as met:
        out = subject.run(one[0], **one[1])[looked]
    with noted(subject) as again:
        effect = subject.differ(out, subject.run(other[0], **other[1])[looked])
    if not (effect > 0).any():
        return None
    token = int(effect.argmax())
    places = (looked, token), (looked, token)
    return token, float(effect.max()), first_apart(subject, met, again, places)


def _influence(
    what: str, looked: int, found: tuple[int, float, str], shown: tuple[str, ...], repair: str
) -> Fault:
    (token, size, part), (before, one, other) = found, shown
    return Fault(
        "rows",
        f"output {token} of row {looked} changes with the {what} of the other rows of its batch",
        module=part,
        pair=(token, token),
        size=size,
        snippet=two_calls(before, one, other, f"[{looked}, {token}]",
                          "0 if rows do not influence each other"),
        repair=repair,
    )  # fmt: skip
