"""The part of a model in which a difference between two runs first appears."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from anyseq.models.calls import first_sequence
from anyseq.models.faults.seen import prefix_of
from anyseq.models.faults.subject import Subject, differences

_ROUNDED = 1e-6


@dataclass(frozen=True)
class Met:
    """A part that was run: its input and its output, (rows, tokens, features)."""

    name: str
    given: torch.Tensor
    gives: torch.Tensor


def entrance(
    subject: Subject, x: torch.Tensor, pair: tuple[int, int], seed: int = 1, **told: Any
) -> str:
    """The name of the part by which output i of the first row of x comes to depend on token j; ""
    if none was found. seed: of the other content of token j. told: further arguments of the model,
    about all rows of x."""
    i, j = pair
    changed = x.clone()
    changed[:, j] = subject.other(x, seed)[:, j]
    with noted(subject) as plain:
        subject.run(x, **told)
    with noted(subject) as other:
        subject.run(changed, **told)
    return first_apart(subject, plain, other, ((0, i), (0, i)))


def first_apart(
    subject: Subject,
    one: list[Met],
    other: list[Met],
    places: tuple[tuple[int, int], tuple[int, int]],
    rounded: float = _ROUNDED,
) -> str:
    """The name of the innermost part that gets the same input in two runs but gives another output,
    at one row and token of each; "" if there is none. rounded: differences up to this, relative to
    the largest number, do not count."""

    place, place_of_other = places

    def apart(first: torch.Tensor, second: torch.Tensor) -> bool:
        if first.shape[2] != second.shape[2]:
            return True
        if not (_has(first, place) and _has(second, place_of_other)):
            return False
        replaced = first.clone()
        replaced[place] = second[place_of_other]
        return bool(differences(first, replaced, rounded)[place] > 0)

    for met, again in zip(one, other, strict=False):
        if met.name != again.name:
            break
        if apart(met.gives, again.gives) and not apart(met.given, again.given):
            return f"{prefix_of(subject)}{met.name}"
    return ""


def _has(x: torch.Tensor, place: tuple[int, int]) -> bool:
    return place[0] < x.shape[0] and place[1] < x.shape[1]


@contextmanager
def noted(subject: Subject) -> Iterator[list[Met]]:
    """The inputs and outputs of the parts that map sequences to sequences, in the order of their
    completion."""
    met: list[Met] = []

    def note(name: str) -> Any:
        def after(part: torch.nn.Module, args: Any, kwargs: Any, out: Any) -> None:
            given, gives = first_sequence([*args, *kwargs.values()]), first_sequence(out)
            if given is not None and gives is not None and given.shape[:2] == gives.shape[:2]:
                met.append(Met(name, given.detach().clone(), gives.detach().clone()))

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
