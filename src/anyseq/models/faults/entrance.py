"""By which part of a model the content of one token first comes to the output of another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from anyseq.models.calls import first_sequence
from anyseq.models.faults.subject import Subject, differences

_ROUNDED = 1e-6


def entrance(subject: Subject, x: torch.Tensor, pair: tuple[int, int]) -> str:
    """The name of the innermost part that is handed the same for token i and gives something else
    when token j of x gets other content; "" if none is seen to."""
    i, j = pair
    changed = x.clone()
    changed[:, j] = subject.other(x)[:, j]
    runs = []
    for sequence in (x, changed):
        with _noted(subject, x.shape[1]) as met:
            subject.run(sequence)
        runs.append(met)
    for (name, *one), (same, *other) in zip(*runs, strict=False):
        if name != same:
            break
        before, after = (_apart(a, b, i) for a, b in zip(one, other, strict=True))
        if after and not before:
            return name
    return ""


@contextmanager
def _noted(subject: Subject, tokens: int) -> Iterator[list[tuple[str, torch.Tensor, torch.Tensor]]]:
    """What parts are handed and what they give, in the order in which they are done."""
    met: list[tuple[str, torch.Tensor, torch.Tensor]] = []

    def note(name: str) -> Any:
        def after(part: torch.nn.Module, args: Any, kwargs: Any, out: Any) -> None:
            pair = (first_sequence([*args, *kwargs.values()]), first_sequence(out))
            if all(one is not None and one.shape[1] == tokens for one in pair):
                met.append((name, *(one.detach().clone() for one in pair)))

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
