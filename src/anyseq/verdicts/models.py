"""Verdicts on real things: Hugging Face configs and models, torch modules."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import torch

from anyseq.design import USUAL_TOKENS, Design
from anyseq.errors import InvalidArgument, UnsupportedModel
from anyseq.models import (
    NO_BOS,
    Function,
    Probe,
    Reading,
    after_bos,
    as_function,
    is_hugging_face,
    probe,
    read,
)
from anyseq.nn import Transformer
from anyseq.verdicts import seen
from anyseq.verdicts.check import check_bos, check_design
from anyseq.verdicts.question import Facts, Question
from anyseq.verdicts.text import AS_READ
from anyseq.verdicts.verdict import Finding, Verdict, no_fixes

_PROBED = 256  # tokens; the probe runs as many sequences of that many tokens at once


@dataclass(frozen=True, eq=False)
class _Subject:
    """What there is to judge, for so many tokens.

    design: how it was read, if it could be. unsure: why a True for the design would not be one for
        the subject, whatever its width, or why there is no design. findings: what was read.
    assumes: what of that was seen and is declared nowhere. own: whether it is a module of
        somebody's own, not one of transformers' or of ours.
    fixed: whether it has weights. width: then how many features a token has, if it says so.
    open_bos: whether a BOS token may come first, and nobody says.
    function, probe: the model, and what was seen of it from outside.
    """

    name: str
    tokens: int
    design: Design | None
    unsure: tuple[str, ...]
    findings: tuple[Finding, ...]
    assumes: tuple[str, ...] = ()
    own: bool = False
    fixed: bool = False
    width: int | None = None
    open_bos: bool = False
    function: Function | None = None
    probe: Probe | None = None

    @cached_property
    def facts(self) -> Facts | None:
        """What the graph of its design says, for all questions."""
        return None if self.design is None else Facts(self.design)

    def seen_in(self, norm: str) -> str:
        """The norm for which a probe is telling: for ids, that are finitely many, both are one."""
        return "sup" if self.design is not None and self.design.domain == "ids" else norm

    @cached_property
    def is_causal(self) -> bool:
        """Whether no token reaches an earlier one, by its design or as far as was seen."""
        if self.facts is not None:
            return Question(self.facts, "sup", "all").is_causal
        return self.probe is not None and seen.is_causal(self.probe)


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
    weights. What they rest on that was only seen in a small copy stands in `verdict.assumes`; then
    True is not given, and False only where transformers' own model was read. True is not given
    either for a model that has weights, since the theorems let the width grow.

    A model is also probed from outside, with its own weights and with random ones. If it does what
    no network of its design does, the design is not used. If a probe fails in every trial there is
    a witness on that very model; but nothing is said of weights that were not tried, so that the
    answer is None, as it is if all probes pass, unless the rules say more.

    bos: whether a token of its own comes first; it takes one of the positions.
    """
    if isinstance(what, Transformer):
        check_bos(what.design, bos)
        bos = False  # its design has it, or not
    length = tokens + 1 if tokens is not None and bos else tokens
    if isinstance(what, torch.nn.Module):
        subject = _of_module(what, length, bool(bos), example)
    else:
        reading = read(what, length, example=example)
        subject = _named(_subject(reading.subject, reading, bool(bos)))
        subject = replace(subject, name=subject.name[0].upper() + subject.name[1:])
    subject = replace(subject, open_bos=bos is None)
    own = "causal" if subject.is_causal else "all"
    return _answer(subject, seconds, norm, own if target is None else target)


def _subject(name: str, reading: Reading, bos: bool) -> _Subject:
    """bos: whether the first of the positions is that of a token of its own."""
    design, tokens = reading.design, reading.tokens - bos
    if bos and tokens == 0:
        raise InvalidArgument(f"bos=True: {name} was read for 1 position, which BOS takes; give "
                              "more tokens")  # fmt: skip
    if design is not None and bos:
        design = replace(design, tokens=tokens, bos=True)
    return _Subject(
        name + ", BOS" * bos,
        tokens,
        design,
        reading.unknown,
        tuple(Finding(fact.source, True, fact.says, AS_READ) for fact in reading.facts
              if not (bos and fact.says == NO_BOS)),
        reading.assumed,
    )  # fmt: skip


def _named(subject: _Subject) -> _Subject:
    """With the length in its name."""
    return replace(subject, name=f"{subject.name}, {subject.tokens:,} tokens")


def _of_module(module: torch.nn.Module, length: int | None, bos: bool, example: Any) -> _Subject:
    """length: with BOS, if any."""
    subject = _of_description(module, length, bos, example)
    if example is not None:
        unseen = Finding("probe", None, "what it takes is known by example only", "not run")
        return _named(replace(subject, findings=(*subject.findings, unseen)))
    short = _probed_length(subject)
    if short is None:
        saw = f"{subject.tokens} tokens are too many for it: up to {_PROBED}"
        unseen = Finding("probe", None, saw, "not run")
        return _named(replace(subject, findings=(*subject.findings, unseen)))
    function = as_function(module, tokens=length if subject.design is None else short + bos)
    function = after_bos(function) if bos else function
    tokens = function.tokens if subject.design is None else subject.tokens
    subject = _named(replace(subject, tokens=tokens))
    result = probe(function, function.tokens)
    subject = replace(subject, function=function, probe=result)
    if subject.design is None:
        return subject
    wrong = seen.disagreement(replace(subject.design, tokens=function.tokens), result)
    if wrong is None:
        return subject
    differs = Finding("description", False, wrong, "the model is not what it says")
    why = f"the model is not what its description says: {wrong}"
    return replace(
        subject, design=None, unsure=(why,), findings=(differs, *subject.findings), assumes=()
    )


def _probed_length(subject: _Subject) -> int | None:
    """How many tokens a model is run on: as many as it is judged for, or fewer if these are too
    many; None if it cannot be run on fewer."""
    if subject.tokens <= _PROBED:
        return subject.tokens
    if subject.design is None:
        return None
    layers = subject.design.layer_cycle
    lengths = {layer.sees.natural_length for layer in layers if layer.attends}
    lengths |= {layer.position.natural_length for layer in layers}
    return USUAL_TOKENS if lengths <= {None} else None


def _of_description(
    module: torch.nn.Module, length: int | None, bos: bool, example: Any
) -> _Subject:
    """What a model is read as. Obstacles hold for every width; proofs let it grow."""
    try:
        reading = read(module, length, example=example)
    except UnsupportedModel as problem:  # it can still be probed
        if example is not None:
            raise
        why = f"it could not be read: {problem}"
        tokens = (length or USUAL_TOKENS) - bos
        return _Subject(type(module).__name__, tokens, None, (why,), (), fixed=True)
    subject = replace(_subject(reading.subject, reading, bos), fixed=True, width=_width(module))
    if not isinstance(module, Transformer) and not is_hugging_face(module):
        return replace(subject, own=True, design=_with_more(subject.design))
    return subject


def _width(module: Any) -> int | None:
    """How many features a token has, in a model that says so."""
    if isinstance(module, Transformer):
        return module.dim
    if not is_hugging_face(module):
        return None
    width = getattr(module.config.get_text_config(), "hidden_size", None)
    return width if isinstance(width, int) else None


def _with_more(design: Design | None) -> Design | None:
    """A design with what a look may have missed, since it is written without modules: feed-forward
    halves, and a map after the last norm."""
    if design is None:
        return None
    layers = [replace(layer, feedforward=True) for layer in design.layer_cycle]
    return replace(design.with_layers(layers), final_norm=None)


def _answer(subject: _Subject, seconds: float, norm: str, target: str) -> Verdict:
    found = subject.findings
    if subject.probe is not None:
        found += seen.findings(subject.probe, subject.seen_in(norm), target, subject.tokens)
    verdict = Verdict(subject.name, None, norm, target, "", found)
    if subject.design is not None:
        ruled = check_design(subject.design, norm, target, subject.facts, seconds)
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
    if verdict.universal is False and subject.own:
        reason = f"as seen it cannot, which is not proved for other weights: {verdict.reason}"
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


def _with_replay(subject: _Subject, verdict: Verdict) -> Verdict:
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


def _seen_to_fail(subject: _Subject, verdict: Verdict) -> Verdict | None:
    """None, with a witness on this very model, if a probe failed in every trial. What was not seen
    with some weights may be there with others, so nothing is refuted; and nothing is said where the
    design is proved to be universal."""
    if subject.probe is None or subject.function is None or verdict.universal:
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
