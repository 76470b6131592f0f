"""By which part of a model the content of one token first comes to the output of another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from anyseq.models.calls import first_sequence
from anyseq.models.faults.seen import prefix_of
from anyseq.models.faults.subject import Subject, differences

_ROUNDED = 1e-6


def entrance(subject: Subject, x: torch.Tensor, pair: tuple[int, int], **told: Any) -> str:
    """The name of the innermost part that is handed the same for token i of the first row of x and
    gives something else when token j gets other content; "" if none is seen to. told: what the
    model is told of all rows beside x."""
    i, j = pair
    changed = x.clone()
    changed[:, j] = subject.other(x)[:, j]
    runs: list[list[tuple[str, torch.Tensor, torch.Tensor]]] = []
    for sequence in (x, changed):
        with _noted(subject, x.shape[1]) as met:
            subject.run(sequence, **told)
        runs.append(met)
    for (name, given, gives), (same, other, gives_other) in zip(*runs, strict=False):
        if name != same:
            break
        if _apart(gives, gives_other, i) and not _apart(given, other, i):
            return f"{prefix_of(subject)}{name}"
    return ""


@contextmanager
def _noted(subject: Subject, tokens: int) -> Iterator[list[tuple[str, torch.Tensor, torch.Tensor]]]:
    """What parts are handed and what they give, in the order in which they are done."""
    met: list[tuple[str, torch.Tensor, torch.Tensor]] = []

    def note(name: str) -> Any:
        def after(part: torch.nn.Module, args: Any, kwargs: Any, out: Any) -> None:
            given, gives = first_sequence([*args, *kwargs.values()]), first_sequence(out)
            if given is None or gives is None or not given.shape[1] == gives.shape[1] == tokens:
                return
            met.append((name, given.detach().clone(), gives.detach().clone()))

        return after

    hooks = [
        part.register_forward_hook(note(name), with_kwargs=True)
        for name, part in subject.module.named_modules()
        if name
    ]
    try:
        yield met
    finally:
        for hook in hooks:
            hook.remove()


def _apart(one: torch.Tensor, other: torch.Tensor, token: int) -> bool:
    return bool(differences(one, other, _ROUNDED)[0, token] > 0)
