"""Verdicts on real things: Hugging Face configs and models, torch modules."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from anyseq.base import at_least_one
from anyseq.design import USUAL_TOKENS, Design
from anyseq.errors import UnsupportedModel
from anyseq.models import Function, Probe, Reading, as_function, is_hugging_face, probe, read
from anyseq.nn import Transformer
from anyseq.verdicts import seen
from anyseq.verdicts.text import AS_READ
from anyseq.verdicts.verdict import Finding, Verdict, no_fixes

_PROBED = 256  # tokens; the probe runs as many sequences of that many tokens at once


@dataclass(frozen=True, eq=False)
class _Subject:
    """What there is to judge, for so many tokens.

    design: how it was read, if it could be. unsure: why a True for the design would not be one for
        the subject, or why there is no design. findings: what was read.
    assumes: what of that was seen and is declared nowhere. own: whether it is a module of
        somebody's own, not one of transformers' or of ours.
    function, probe: the model, and what was seen of it from outside.
    """

    name: str
    tokens: int
    design: Design | None
    unsure: tuple[str, ...]
    findings: tuple[Finding, ...]
    assumes: tuple[str, ...] = ()
    own: bool = False
    function: Function | None = None
    probe: Probe | None = None


def check_model(
    what: Any, *, norm: str, target: str, tokens: int | None, seconds: float
) -> Verdict:
    """The verdict on a Hugging Face config (also as a dictionary or the path of its file), a
    Hugging Face model, an anyseq.nn.Transformer or any torch module.

    It is read as a design (`anyseq.read`), which is judged by the rules for designs, for all
    weights. What they rest on that was only seen in a small copy stands in `verdict.assumes`; then
    True is not given, and False only where transformers' own model was read.

    A model is also probed from outside, with its own weights and with random ones. If it does what
    no network of its design does, the design is not used. If a probe fails in every trial there is
    a witness on that very model; but nothing is said of weights that were not tried, so that the
    answer is None, as it is if all probes pass, unless the rules say more.

    tokens: the length; 16 unless given, or that of the design, or one that a torch module takes.
    """
    if tokens is not None:
        at_least_one("tokens", tokens)
    if isinstance(what, torch.nn.Module):
        return _answer(_of_module(what, tokens), seconds, norm, target)
    reading = read(what, tokens)
    name = f"{reading.subject}, {reading.tokens:,} tokens"
    subject = _subject(name[0].upper() + name[1:], reading)
    return _answer(subject, seconds, norm, target)


def _subject(name: str, reading: Reading) -> _Subject:
    """Vectors are asked about, in the place of the embeddings of ids."""
    design = reading.design
    return _Subject(
        name,
        reading.tokens,
        None if design is None else replace(design, domain="cube"),
        reading.unknown,
        tuple(Finding(fact.source, True, fact.says, AS_READ) for fact in reading.facts),
        reading.assumed,
    )


def _of_module(module: torch.nn.Module, tokens: int | None) -> _Subject:
    subject = _of_description(module, tokens)
    length = subject.tokens if subject.design is not None else tokens
    if subject.tokens > _PROBED:
        saw = f"{subject.tokens} tokens are too many for it: up to {_PROBED}"
        unseen = Finding("probe", None, saw, "not run")
        name = f"{subject.name}, {subject.tokens} tokens"
        return replace(subject, name=name, findings=(*subject.findings, unseen))
    function = as_function(module, tokens=length)
    name = f"{subject.name}, {function.tokens} tokens"
    subject = replace(subject, name=name, tokens=function.tokens)
    result = probe(function, subject.tokens)
    subject = replace(subject, function=function, probe=result)
    wrong = None if subject.design is None else seen.disagreement(subject.design, result)
    if wrong is None:
        return subject
    differs = Finding("description", False, wrong, "the model is not what it says")
    why = f"the model is not what its description says: {wrong}"
    return replace(
        subject, design=None, unsure=(why,), findings=(differs, *subject.findings), assumes=()
    )


def _of_description(module: torch.nn.Module, tokens: int | None) -> _Subject:
    """What a model is read as. Obstacles hold for every width; proofs let it grow."""
    try:
        reading = read(module, tokens)
    except UnsupportedModel as problem:  # it can still be probed
        why = f"it could not be read: {problem}"
        return _Subject(type(module).__name__, tokens or USUAL_TOKENS, None, (why,), ())
    subject = _subject(reading.subject, reading)
    if not isinstance(module, Transformer) and not is_hugging_face(module):
        return replace(subject, own=True, design=_with_more(subject.design))
    if isinstance(module, Transformer):
        width = f"the theorems let the width grow; here it is {module.dim}"
        subject = replace(subject, unsure=(width, *subject.unsure))
    return subject


def _with_more(design: Design | None) -> Design | None:
    """A design with what a look may have missed, since it is written without modules: feed-forward
    halves, and a map after the last norm."""
    if design is None:
        return None
    layers = [replace(layer, feedforward=True) for layer in design.layer_cycle]
    return replace(design.with_layers(layers), final_norm=None)


def _answer(subject: _Subject, seconds: float, norm: str, target: str) -> Verdict:
    from anyseq.verdicts.check import check_design  # which itself hands models on to here

    found = subject.findings
    if subject.probe is not None:
        found += seen.findings(subject.probe, norm, target)
    verdict = Verdict(subject.name, None, norm, target, "", found)
    if subject.design is not None:
        ruled = check_design(subject.design, norm, target, seconds=seconds)
        verdict = replace(ruled, subject=subject.name, findings=(*found, *ruled.findings))
    verdict = replace(
        verdict,
        seconds=seconds,
        assumes=subject.assumes,
        _again=partial(_answer, subject, seconds),
    )
    if verdict.universal is False and subject.own:
        reason = f"as seen it cannot, which is not proved for other weights: {verdict.reason}"
        shown = _with_replay(subject, verdict)
        return replace(shown, universal=None, reason=reason, _fixes=no_fixes)
    if verdict.universal is False:
        return _with_replay(subject, verdict)
    failed = _seen_to_fail(subject, verdict)
    if failed is not None:
        return failed
    unsure = subject.unsure
    if subject.assumes:
        unsure += (f"seen only, in a copy with random weights: {subject.assumes[0]}",)
    gaps = tuple(Finding("not covered", None, why, "no theorem") for why in unsure)
    found = (*verdict.findings, *gaps)
    if verdict.universal and not unsure:
        return verdict
    if verdict.universal:
        reason = f"its design is universal, but not proved for this: {'; '.join(unsure)}"
    elif subject.design is not None:
        reason = verdict.reason
    else:
        reason = unsure[0]
    if subject.probe is not None:
        reason = f"no obstruction found; {reason}"
    return replace(
        verdict, universal=None, reason=reason, findings=found, certificate=None, _fixes=no_fixes
    )


def _with_replay(subject: _Subject, verdict: Verdict) -> Verdict:
    """A False by the rules, with the error that the model itself makes."""
    if subject.function is None or subject.probe is None or verdict.witness is None:
        return verdict
    error, _ = seen.replayed(verdict.witness, subject.function, subject.probe.rounding)
    bound = f"{verdict.witness.bound:.4g}"
    saw = f"this model errs by {error:.4g}, no network of its design by less than {bound}"
    replay = Finding("replay", False, saw, verdict.witness.name)
    return replace(verdict, findings=(*verdict.findings, replay))


def _seen_to_fail(subject: _Subject, verdict: Verdict) -> Verdict | None:
    """None, with a witness on this very model, if a probe failed in every trial. What was not seen
    with some weights may be there with others, so nothing is refuted; and nothing is said where the
    design is proved to be universal."""
    if subject.probe is None or subject.function is None or verdict.universal:
        return None
    witness = seen.obstruction(subject.probe, verdict.norm, verdict.target)
    if witness is None:
        return None
    error, holds = seen.replayed(witness, subject.function, subject.probe.rounding)
    if not holds:
        return None
    tried = subject.probe.trials - 1
    weights = "its own weights" + f" and {tried} random sets of weights" * (tried > 0)
    reason = f"an obstruction was seen with {weights}, not proved for others: {witness.why}"
    replay = Finding("replay", False, f"this model errs by {error:.4g}", witness.name)
    return replace(
        verdict,
        universal=None,
        reason=reason.rstrip("."),
        findings=(*verdict.findings, replay),
        witness=witness,
        certificate=None,
        _fixes=no_fixes,
    )
