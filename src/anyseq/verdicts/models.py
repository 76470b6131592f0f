"""Verdicts on real things: Hugging Face configs and models, torch modules."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from anyseq.base import at_least_one
from anyseq.design import USUAL_TOKENS, Design
from anyseq.errors import InvalidArgument, UnsupportedModel
from anyseq.nn import Transformer, made_of
from anyseq.verdicts import seen
from anyseq.verdicts.function import Function
from anyseq.verdicts.probes import Probe, probe
from anyseq.verdicts.running import as_function, is_hugging_face
from anyseq.verdicts.verdict import Finding, Verdict, no_fixes

if TYPE_CHECKING:
    from anyseq.hf import Reading

_PROBED = 256  # tokens; the probe runs as many sequences of that many tokens at once


@dataclass(frozen=True, eq=False)
class _Subject:
    """What there is to judge, for so many tokens.

    design: what its description says, if that could be read. unsure: why a True for the design
        would not be one for the subject, or why there is no design. findings: what was read.
    function, probe: the model, and what was seen of it.
    """

    name: str
    tokens: int
    design: Design | None
    unsure: tuple[str, ...]
    findings: tuple[Finding, ...]
    function: Function | None = None
    probe: Probe | None = None


def check_model(
    what: Any, *, norm: str, target: str, tokens: int | None, seconds: float
) -> Verdict:
    """The verdict on a Hugging Face config (also as a dictionary or the path of its file), a
    Hugging Face model, an anyseq.nn.Transformer or any torch module.

    What a description says is judged by the rules for designs, which hold for all weights. A model
    is also probed, with its own weights and with random ones. If it does what no network of its
    design does, the design is not used. If a probe fails in every trial there is a witness on that
    very model; but nothing is said of weights that were not tried, so that the answer is None, as
    it is if all probes pass, unless the rules say more.

    tokens: the length; 16 unless given, or that of the design, or one that a torch module takes.
    """
    if tokens is not None:
        at_least_one("tokens", tokens)
    read = _of_module if isinstance(what, torch.nn.Module) else _of_config
    return _answer(read(what, tokens), seconds, norm, target)


def _of_config(config: Any, tokens: int | None) -> _Subject:
    from anyseq.hf import read_config  # transformers is an extra, and slow to import

    reading = read_config(config, tokens)
    name = f"{reading.subject}, {reading.tokens:,} tokens"
    name = name[0].upper() + name[1:]
    return _Subject(name, reading.tokens, reading.design, reading.unsure, _as_read(reading))


def _of_module(module: torch.nn.Module, tokens: int | None) -> _Subject:
    if isinstance(module, Transformer):
        subject = _of_transformer(module, tokens)
        tokens = subject.tokens
    elif is_hugging_face(module):
        subject = _of_hugging_face(module, tokens)
        tokens = subject.tokens
    else:
        subject = _undescribed(module, tokens, "it is not a model whose design is known")
    if subject.tokens > _PROBED:
        saw = f"{subject.tokens} tokens are too many for it: up to {_PROBED}"
        unseen = Finding("probe", None, saw, "not run")
        name = f"{subject.name}, {subject.tokens} tokens"
        return replace(subject, name=name, findings=(*subject.findings, unseen))
    function = as_function(module, tokens=tokens)
    name = f"{subject.name}, {function.tokens} tokens"
    subject = replace(subject, name=name, tokens=function.tokens)
    result = probe(function, subject.tokens)
    subject = replace(subject, function=function, probe=result)
    wrong = None if subject.design is None else seen.disagreement(subject.design, result)
    if wrong is None:
        return subject
    differs = Finding("description", False, wrong, "the model is not what it says")
    why = f"the model is not what its description says: {wrong}"
    return replace(subject, design=None, unsure=(why,), findings=(differs, *subject.findings))


def _of_transformer(module: Transformer, tokens: int | None) -> _Subject:
    """Its design with the depth it has. Obstacles hold for every width and with layer norms, which
    act on each token by itself; only W7 speaks of blocks without them."""
    design = module.design
    length = design.tokens if tokens is None else tokens
    lengths = {pattern.natural_length for pattern in design.cycle} - {None}
    if length > design.tokens or lengths - {length + design.bos}:
        raise InvalidArgument(f"tokens={length}: the Transformer's design has {design.tokens}")
    layers = design.layer_cycle
    for number, block in enumerate(module.blocks):
        if not made_of(block.mixer, layers[number % len(layers)]):
            kind = type(block.mixer).__name__
            return _undescribed(
                module, length, f"blocks[{number}] is {kind}, not what its design says"
            )
    if module.causal:
        layers = tuple(layer.of_the_past() for layer in layers)
    design = replace(design.with_layers(layers), tokens=length, depth=len(module.blocks))
    if module.vocab is not None:  # the tied linear layer comes after the norm
        design = replace(design, final_norm=None)
    normed = any(isinstance(part, torch.nn.LayerNorm) for part in module.modules())
    if normed and not all(layer.feedforward for layer in design.layer_cycle):
        return _undescribed(module, length, "it has layer norms and no feed-forward layers")
    unsure = [f"the theorems let the width grow; here it is {module.dim}"]
    unsure += ["the theorems speak of blocks without layer norms"] * normed
    return _Subject(type(module).__name__, length, design, tuple(unsure), ())


def _of_hugging_face(module: Any, tokens: int | None) -> _Subject:
    """Its config says what it is, as long as its class is transformers' own and unchanged."""
    from anyseq.hf import read_config

    if not type(module).__module__.startswith("transformers."):
        return _undescribed(module, tokens, "its class is not one of transformers' own")
    if "anyseq_attachment" in module.__dict__:
        why = "anyseq.hf.use changed its attention, so that its config does not describe it"
        return _undescribed(module, tokens, why)
    try:
        reading = read_config(module.config, tokens)
    except UnsupportedModel as problem:
        return _undescribed(module, tokens, f"its config could not be read: {problem}")
    name = f"{type(module).__name__}: {reading.subject}"
    return _Subject(name, reading.tokens, reading.design, reading.unsure, _as_read(reading))


def _as_read(reading: Reading) -> tuple[Finding, ...]:
    return tuple(Finding("config", True, fact, "as read") for fact in reading.facts)


def _undescribed(module: torch.nn.Module, tokens: int | None, why: str) -> _Subject:
    """A model that can only be probed."""
    return _Subject(type(module).__name__, tokens or USUAL_TOKENS, None, (why,), ())


def _answer(subject: _Subject, seconds: float, norm: str, target: str) -> Verdict:
    from anyseq.verdicts.check import check_design  # which itself hands models on to here

    found = subject.findings
    if subject.probe is not None:
        found += seen.findings(subject.probe, norm, target)
    verdict = Verdict(subject.name, None, norm, target, "", found)
    if subject.design is not None:
        ruled = check_design(subject.design, norm, target, seconds=seconds)
        verdict = replace(ruled, subject=subject.name, findings=(*found, *ruled.findings))
    verdict = replace(verdict, seconds=seconds, _again=partial(_answer, subject, seconds))
    if verdict.universal is False:
        return _with_replay(subject, verdict)
    failed = _seen_to_fail(subject, verdict)
    if failed is not None:
        return failed
    gaps = tuple(Finding("not covered", None, why, "no theorem") for why in subject.unsure)
    found = (*verdict.findings, *gaps)
    if verdict.universal and not subject.unsure:
        return verdict
    if verdict.universal:
        reason = f"its design is universal, but not proved for this: {'; '.join(subject.unsure)}"
    elif subject.design is not None:
        reason = verdict.reason
    else:
        reason = subject.unsure[0]
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
