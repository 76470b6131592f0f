"""`anyseq.audit`: does a model attend as it declares?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from warnings import catch_warnings

import torch

from anyseq.base import Progress, at_least_one, one_thread, positive, silent
from anyseq.errors import AnyseqError, InvalidArgument, UnsupportedModel
from anyseq.models.faults.asked import Question, is_config, of_module
from anyseq.models.faults.fault import Audit, Check, Fault
from anyseq.models.faults.left import left_as_it_was, same_random_numbers
from anyseq.models.faults.rule import Asked, NotChecked, Note, Rule
from anyseq.models.faults.snippets import narrow
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
    declared: what the model is supposed to attend to: a Hugging Face config or its path, a Design,
        a pattern (or its text, such as "causal & window(64)"), a mask_mod or a bool mask. Unless
        given, the model's own config or design.
    tokens: the number of tokens it is run on; 30 unless given, or enough to exceed its windows, up
        to 256.
    layers: compare only these, counted from 1, of the model itself, however large it is.
    seconds: the approximate time limit for running the model itself. For a larger model, and for
        windows that are too wide, a copy is built by its class from its config, with the same
        layers, few features and short windows.

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
            return _of_config(model, declared, progress)
        with left_as_it_was(model):
            if is_hugging_face(model):
                return _of_transformers(model, (declared, tokens, chosen, seconds), progress)
            with catch_warnings(action="ignore"):  # of what the copies of a model may not do
                return _answer(of_module(model, declared, tokens, chosen), progress)


def _of_config(what: Any, declared: Any, progress: Progress) -> Audit:
    if not is_config(what):
        raise InvalidArgument(
            f"model={what!r}: expected a torch module, or a Hugging Face config or the path of a "
            "config.json or its folder"
        )
    with quick_import():
        from anyseq.models.faults.asked_transformers import of_config
        from anyseq.models.read_config import quiet

        question = of_config(what, declared)
    with quiet():
        return _answer(question, progress)


def _of_transformers(model: Any, asked: tuple[Any, ...], progress: Progress) -> Audit:
    with quick_import():
        from anyseq.models.faults.asked_transformers import of_transformers
        from anyseq.models.read_config import quiet

        with quiet():
            question = of_transformers(model, *asked)
    with quiet():
        return _answer(question, progress)


def _answer(question: Question, progress: Progress) -> Audit:
    """Every rule on every subject; a fault found again in a small copy is reported once."""
    faults = list(question.faults)
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
                        told = question.told(found, asked)
                        faults.append(replace(told, snippet=narrow(told.snippet)))
                checked[name] = rule.risk
                skipped.pop(name, None)
            except NotChecked as reason:
                if name not in checked:
                    skipped[name] = str(reason)
    progress("audit", total, total)
    if not checked:
        reasons = "; ".join(f"{name}: {why}" for name, why in skipped.items())
        raise UnsupportedModel(f"{question.subject}: nothing could be checked ({reasons})")
    return Audit(
        question.subject,
        question.declared,
        tuple(faults),
        tuple(dict.fromkeys(notes)),
        tuple(Check(name, risk) for name, risk in checked.items()),
        tuple(Check(name, why) for name, why in skipped.items()),
    )


def _found(rule: Rule, asked: Asked) -> Iterator[Fault | Note]:
    """The findings of a rule; if the model cannot be run for it, the rule is skipped."""
    if not asked.subject.steady and rule.compares:
        raise NotChecked("runs of the model differ by themselves, so that a difference says little")
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
    """Whether a fault of the whole model is that of one of its layers."""
    same = ("future", "window")
    return not fault.layers and fault.rule in same and any(one.rule == fault.rule for one in faults)
