"""`anyseq.audit`: does a model attend as it declares?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from warnings import catch_warnings

import torch

from anyseq.base import Progress, at_least_one, one_thread, positive, silent
from anyseq.errors import AnyseqError
from anyseq.models.faults.asked import Question, of_config, of_module, of_transformers
from anyseq.models.faults.fault import Audit, Check, Fault
from anyseq.models.faults.left import left_as_it_was, same_random_numbers
from anyseq.models.faults.rule import Asked, NotChecked, Note, Rule
from anyseq.models.one_line import in_one_line
from anyseq.models.quick_import import quick_import
from anyseq.models.running import is_hugging_face

SECONDS = 60.0


def audit(
    model: Any,
    declared: Any = None,
    *,
    tokens: int | None = None,
    layers: Sequence[int] | None = None,
    seconds: float = SECONDS,
    progress: Progress = silent,
) -> Audit:
    """Whether a model attends as it declares, with a pair of tokens for each fault.

    model: a Hugging Face model that reads ids, a config of one (an object, a dictionary, a
        config.json or its folder), or any torch module that maps ids (batch, tokens), or vectors
        (batch, tokens, features), to (batch, tokens, anything).
    declared: what it says it attends to: a Hugging Face config, a Design, a pattern, a mask_mod or
        a bool mask. Unless given, the model's own config or design.
    tokens: how many it is run on; unless given, 30, or as many as go past its windows, up to 256.
    layers: compare only these, counted from 1, of the model itself, however large it is.
    seconds: what running the model itself may cost, about. Of a larger one, and for windows that
        are too wide, a copy is built by its class from its config, with the same layers, few
        features and short windows.

    The model is run on the CPU, as a copy in float64 where it can be copied; it is left as it was.
    Nothing is downloaded.
    """
    if tokens is not None:
        at_least_one("tokens", tokens)
    positive("seconds", seconds)
    chosen = None if layers is None else tuple(layers)
    with (
        one_thread(), same_random_numbers(), torch.inference_mode(False), torch.enable_grad()
    ):  # fmt: skip
        if not isinstance(model, torch.nn.Module):
            with _silent(transformers=True):
                return _answer(of_config(model, declared), progress)
        of_theirs = is_hugging_face(model)
        with left_as_it_was(model), _silent(of_theirs):
            if of_theirs:
                with quick_import():
                    question = of_transformers(model, declared, tokens, chosen, seconds)
            else:
                question = of_module(model, declared, tokens, chosen)
            return _answer(question, progress)


@contextmanager
def _silent(transformers: bool) -> Iterator[None]:
    """Nobody is told of what the copies of a model may not do."""
    if transformers:
        from anyseq.models.read_config import quiet

        with quiet():
            yield
    else:
        with catch_warnings(action="ignore"):
            yield


def _answer(question: Question, progress: Progress) -> Audit:
    """Every rule, put to every subject; what is found again in a small copy is said once."""
    faults: list[Fault] = []
    notes = list(question.notes)
    checked: dict[str, str] = {}
    skipped: dict[str, str] = {}
    total = len(question.rules) * len(question.asked)
    done = 0
    for asked in question.asked:
        known = {(one.rule, one.layers) for one in faults}
        for rule in question.rules:
            progress("audit", done, total)
            done += 1
            part = f"{asked.subject.part}: " if asked.subject.part else ""
            name = part + rule.name
            try:
                for found in _found(rule, asked):
                    if isinstance(found, Note):
                        notes.append(found.says)
                    elif (found.rule, found.layers) not in known and not _follows(found, faults):
                        faults.append(question.told(found, asked))
                checked[name] = rule.risk
                skipped.pop(name, None)
            except NotChecked as reason:
                if name not in checked:
                    skipped[name] = str(reason)
    progress("audit", total, total)
    return Audit(
        question.subject,
        question.declared,
        tuple(faults),
        tuple(dict.fromkeys(notes)),
        tuple(Check(name, risk) for name, risk in checked.items()),
        tuple(Check(name, why) for name, why in skipped.items()),
    )


def _found(rule: Rule, asked: Asked) -> Iterator[Fault | Note]:
    """The findings of a rule; a model that cannot be run so is not checked by it."""
    try:
        yield from rule.run(asked)
    except NotChecked:
        raise
    except AnyseqError as problem:
        raise NotChecked(in_one_line(problem)) from problem
    except Exception as problem:  # the model is somebody else's, and fails as it likes
        why = f"it could not be run: {type(problem).__name__}: {in_one_line(problem)}"
        raise NotChecked(why) from problem


def _follows(fault: Fault, faults: list[Fault]) -> bool:
    """Whether a fault of the whole model is what one of its layers has."""
    same = ("future", "window")
    return not fault.layers and fault.rule in same and any(one.rule == fault.rule for one in faults)
