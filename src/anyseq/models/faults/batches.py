"""Runs are the same again, and rows of a batch know nothing of each other."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from anyseq.models.faults.fault import Fault
from anyseq.models.faults.rule import Asked, Note
from anyseq.models.faults.snippets import call, sequence, two_calls
from anyseq.models.faults.subject import Subject


def random(asked: Asked) -> Iterator[Fault | Note]:
    """Two runs of a model in evaluation mode, with other random numbers, are equal."""
    subject = asked.subject
    x = subject.draw()
    first = subject.run(x, seed=0)
    for seed in (0, 1):
        effect = subject.differ(first, subject.run(x, seed=seed))
        if (effect > 0).any():
            subject.batched = False
            token = int(effect[0].argmax())
            why = "what is remembered from the run before" if seed == 0 else "chance"
            yield Fault(
                "random",
                f"in evaluation mode output {token} differs from run to run, by {why}",
                pair=(token, token),
                size=float(effect.max()),
                snippet=_snippet(subject, x, token),
                repair="look for dropout or random masks that do not ask whether the model trains, "
                "and for state that stays between calls",
            )
            return


def _snippet(subject: Subject, x: torch.Tensor, token: int) -> str:
    line = call(subject)
    before = f"{sequence(subject, x)}\nmodel.eval()"
    return two_calls(before, line, line, f"[0, {token}]", "0 if both runs are equal")


def rows(asked: Asked) -> Iterator[Fault | Note]:
    """Other content in one row of a batch changes no other row."""
    subject = asked.subject
    x = subject.draw(3)
    changed = x.clone()
    changed[1:] = subject.other(x[1:])
    effect = subject.differ(subject.run(x), subject.run(changed))[0]
    if not (effect > 0).any():
        return
    subject.batched = False
    token = int(effect.argmax())
    lines = f"{sequence(subject, x)}\nchanged = x.clone()\nchanged[1:] = x[1:].flip(1)"
    yield Fault(
        "rows",
        f"output {token} of row 0 changes with the content of the other rows of its batch",
        pair=(token, token),
        size=float(effect.max()),
        snippet=two_calls(lines, call(subject), call(subject, "changed"), f"[0, {token}]",
                          "0 if rows know nothing of each other"),
        repair="look for means, norms or capacities that are taken over the batch",
    )  # fmt: skip
