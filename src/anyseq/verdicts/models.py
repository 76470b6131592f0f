"""Verdicts on existing models: Hugging Face configs and models, torch modules."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from anyseq.design import Design
from anyseq.nn import Transformer
from anyseq.verdicts import seen
from anyseq.verdicts.check import check_bos, check_design
from anyseq.verdicts.pair import with_encoder
from anyseq.verdicts.subject import Subject, subject_of
from anyseq.verdicts.verdict import Finding, Verdict, no_fixes


def check_model(
    what: Any,
    *,
    norm: str,
    target: str | None,
    tokens: int | None,
    bos: bool | None,
    example: Any,
    seconds: float,
) -> Verdict:
    """The verdict on a Hugging Face config (also as a dictionary or the path of its file), a
    Hugging Face model, an anyseq.nn.Transformer or any torch module.

    It is read as a design (`anyseq.read`), which is judged by the rules for designs, for all
    weights. Facts that were only seen in a small copy are listed in `verdict.assumes`; then the
    answer is never True, and False only if transformers' own model was read. It is never True for a
    model with weights either, since the theorems let the width grow.

    A model is also probed from outside, with its own weights and with random ones. If it does what
    no network of its design does, the design is not used. If a probe fails in every trial there is
    a witness on that very model; but nothing is known about weights that were not tried, so the
    answer is None, as it is if all probes pass, unless the rules decide.

    bos: whether a BOS token comes first; it takes one of the positions.
    """
    if isinstance(what, Transformer):
        check_bos(what.design, bos)
        bos = False  # its design has it, or not
    subject = subject_of(what, tokens, bos, example)
    own = "causal" if subject.is_causal else "all"
    return _answer(subject, seconds, norm, own if target is None else target)


def _answer(subject: Subject, seconds: float, norm: str, target: str) -> Verdict:
    found = subject.findings
    if subject.probe is not None and subject.reads_all:
        found += seen.findings(subject.probe, subject.seen_in(norm), target, subject.tokens)
    verdict = Verdict(subject.name, None, norm, target, "", found)
    if subject.design is not None:
        ruled = check_design(subject.design, norm, target, subject.facts, seconds)
        if ruled.universal and subject.contained is not None:
            ruled = _as_contained(ruled, subject.contained, seconds)
        if subject.encoder is not None:
            ruled = with_encoder(ruled, subject.encoder)
        verdict = replace(ruled, subject=subject.name, findings=(*found, *ruled.findings))
    verdict = replace(
        verdict,
        seconds=seconds,
        assumes=subject.assumes,
        open_bos=subject.open_bos,
        width=subject.width,
        _again=partial(_answer, subject, seconds),
    )
    if subject.is_causal and target != "causal":  # what mends that is no repair of a causal model
        verdict = replace(verdict, _fixes=no_fixes)
    if subject.unsure or subject.assumes or subject.contained is not None:
        verdict = replace(verdict, _fixes=no_fixes)  # a repaired design would not be proved either
    if verdict.universal is False and subject.own:
        reason = f"seen only, not proved for other weights: {verdict.reason}"
        shown = _with_replay(subject, verdict)
        return replace(shown, universal=None, reason=reason, tasks=(), _fixes=no_fixes)
    if verdict.universal is False:
        return _with_replay(subject, verdict)
    failed = _seen_to_fail(subject, verdict)
    if failed is not None:
        return failed
    unsure = subject.unsure
    if subject.assumes:
        unsure += (f"seen only, in a copy with random weights: {subject.assumes[0]}",)
    only_width = bool(verdict.universal) and subject.fixed and not unsure
    if subject.fixed and subject.design is not None:
        unsure = (
            f"the theorems let the width grow; here it is {subject.width or 'fixed'}",
            *unsure,
        )
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
        verdict,
        universal=None,
        reason=reason,
        findings=found,
        certificate=None,
        at_some_width=only_width,
        _fixes=no_fixes,
    )


def _as_contained(verdict: Verdict, contained: Design, seconds: float) -> Verdict:
    """If a design only bounds the model, a True needs a design that the model contains."""
    inner = check_design(contained, verdict.norm, verdict.target, seconds=seconds)
    if inner.universal:
        return replace(verdict, certificate=inner.certificate, findings=inner.findings)
    why = f"without the layers that attend to keys of earlier layers: {inner.reason}"
    gap = Finding("contained", None, why, "no theorem")
    return replace(
        verdict, universal=None, reason=why, certificate=None, findings=(*verdict.findings, gap)
    )


def _with_replay(subject: Subject, verdict: Verdict) -> Verdict:
    """A False by the rules, with the error that the model itself makes."""
    if subject.function is None or subject.probe is None or verdict.witness is None:
        return verdict
    if subject.probe.tokens != subject.tokens:
        return verdict  # so many it cannot be run on
    error, _ = seen.replayed(verdict.witness, subject.function, subject.probe.rounding)
    bound = f"{verdict.witness.bound:.4g}"
    saw = f"this model errs by {error:.4g}, no network of its design by less than {bound}"
    replay = Finding("replay", False, saw, verdict.witness.name)
    return replace(verdict, findings=(*verdict.findings, replay))


def _seen_to_fail(subject: Subject, verdict: Verdict) -> Verdict | None:
    """None, with a witness on this very model, if a probe failed in every trial. What was not seen
    with some weights may be there with others, so nothing is refuted; and nothing is said where the
    design is proved to be universal."""
    if subject.probe is None or subject.function is None or verdict.universal:
        return None
    if not subject.reads_all:
        return None
    witness = seen.obstruction(subject.probe, subject.seen_in(verdict.norm), verdict.target)
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
