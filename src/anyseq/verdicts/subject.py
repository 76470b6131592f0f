"""A config, a model or a module, as the subject of a verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from anyseq.design import USUAL_TOKENS, Design
from anyseq.errors import InvalidArgument, UnsupportedModel
from anyseq.models import (
    BORROWS,
    NO_BOS,
    READS_THE_ENCODER,
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
from anyseq.verdicts.question import Facts, Question
from anyseq.verdicts.text import AS_READ
from anyseq.verdicts.verdict import Finding

_PROBED = 256  # tokens; the probe runs several times as many sequences of that many tokens


@dataclass(frozen=True, eq=False)
class Subject:
    """The subject of a verdict, for a number of tokens.

    design: how it was read, if it could be. unsure: why a True for the design would not be one for
        the subject, whatever its width, or why there is no design. findings: what was read.
    assumes: which of these were seen, not declared.
    own: whether it is a user's module, not one of transformers' or anyseq's.
    fixed: whether it has weights.
    width: then how many features a token has, if known.
    open_bos: whether it is unknown if a BOS token comes first.
    contained: a design that the model certainly contains; whatever it can do the model can.
    encoder: what the design, then that of a decoder, also attends to.
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
    contained: Design | None = None
    encoder: Design | None = None
    function: Function | None = None
    probe: Probe | None = None

    @cached_property
    def facts(self) -> Facts | None:
        """Facts from the graph of its design, for all questions."""
        return None if self.design is None else Facts(self.design)

    @property
    def reads_all(self) -> bool:
        """Whether all outputs count; a probe applies only then."""
        return self.design is None or self.design.readout == "all"

    def seen_in(self, norm: str) -> str:
        """The norm that a probe is about: for ids, which are finitely many, the two agree."""
        return "sup" if self.design is not None and self.design.domain == "ids" else norm

    @cached_property
    def is_causal(self) -> bool:
        """Whether no token reaches an earlier one, by its design or as far as was seen."""
        if self.facts is not None:
            return Question(self.facts, "sup", "all").is_causal
        return self.probe is not None and seen.is_causal(self.probe)


def subject_of(what: Any, tokens: int | None, bos: bool | None, example: Any) -> Subject:
    """A config or a module, read for so many tokens, behind BOS if it comes first."""
    length = tokens + 1 if tokens is not None and bos else tokens
    if isinstance(what, torch.nn.Module):
        subject = _of_module(what, length, bool(bos), example)
    else:
        reading = _whole(read(what, length, example=example))
        encoder = reading.parts.get("encoder") if "decoder" in reading.parts else None
        # a decoder that reads an encoder begins with a start token, unless somebody says no
        started = bool(bos) if encoder is None else bos is not False
        subject = replace(_of_reading(reading.subject, reading, started), encoder=encoder)
        subject = _named(subject)
        subject = replace(subject, name=subject.name[0].upper() + subject.name[1:])
    return replace(subject, open_bos=bos is None)


def _whole(reading: Reading) -> Reading:
    """Of an encoder and a decoder that are both known, the decoder, which reads the encoder."""
    decoder = reading.parts.get("decoder")
    if decoder is None or "encoder" not in reading.parts:
        return reading
    unknown = tuple(one for one in reading.unknown if not one.endswith(READS_THE_ENCODER))
    both = reading.subject.replace("the encoder of", "the encoder and the decoder of")
    # what is contained is known of the encoder alone
    return replace(reading, subject=both, design=decoder, unknown=unknown, contained=None)


def _of_reading(name: str, reading: Reading, bos: bool) -> Subject:
    """bos: whether the first position is that of BOS."""
    design, tokens = reading.design, reading.tokens - bos
    if bos and tokens == 0:
        raise InvalidArgument(f"bos=True: {name} was read for 1 position, which BOS takes; give "
                              "more tokens")  # fmt: skip
    if design is not None and bos:
        design = replace(design, tokens=tokens, bos=True)
    contained, unknown = reading.contained, reading.unknown
    if contained is not None:
        contained = replace(contained, tokens=tokens, bos=bos)
        unknown = tuple(one for one in unknown if not one.endswith(BORROWS))
    return Subject(
        name + ", BOS" * bos,
        tokens,
        design,
        (*unknown, *reading.unproved),
        tuple(Finding(fact.source, True, fact.says, AS_READ) for fact in reading.facts
              if not (bos and fact.says.endswith(NO_BOS))),
        reading.assumed,
        contained=contained,
    )  # fmt: skip


def _named(subject: Subject) -> Subject:
    """With the length in its name."""
    return replace(subject, name=f"{subject.name}, {subject.tokens:,} tokens")


def _of_module(module: torch.nn.Module, length: int | None, bos: bool, example: Any) -> Subject:
    """length: with BOS, if any."""
    subject = _of_description(module, length, bos, example)
    if example is not None:
        unseen = Finding("probe", None, "its input is known by example only", "not run")
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
    differs = Finding("description", False, wrong, "the model is not what it declares")
    why = f"the model is not what its description says: {wrong}"
    return replace(
        subject, design=None, unsure=(why,), findings=(differs, *subject.findings), assumes=()
    )


def _probed_length(subject: Subject) -> int | None:
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
) -> Subject:
    """What a model is read as. Obstacles hold for every width; proofs let it grow."""
    try:
        reading = read(module, length, example=example)
    except UnsupportedModel as problem:  # it can still be probed
        if example is not None:
            raise
        why = f"it could not be read: {problem}"
        tokens = (length or USUAL_TOKENS) - bos
        return Subject(type(module).__name__, tokens, None, (why,), (), fixed=True)
    subject = replace(_of_reading(reading.subject, reading, bos), fixed=True, width=_width(module))
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
    """A design with what reading may have missed, since it is written without modules: feed-forward
    halves, and a map after the last norm."""
    if design is None:
        return None
    layers = [replace(layer, feedforward=True) for layer in design.layer_cycle]
    return replace(design.with_layers(layers), final_norm=None)
