"""`anyseq.check`: can this design express every function?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from anyseq.base import OutOfTime, at_least_one, one_of, positive, within
from anyseq.design import Design
from anyseq.errors import ConstructionFault, InvalidArgument
from anyseq.graph import Reach
from anyseq.models import LONGEST
from anyseq.patterns import Pattern, as_pattern, evaluated, parse_pattern
from anyseq.verdicts import obstacles, papers, proofs
from anyseq.verdicts.describe import describe
from anyseq.verdicts.fixes import fixes
from anyseq.verdicts.question import Facts, Question
from anyseq.verdicts.ruling import Ruling
from anyseq.verdicts.tasks import Task, tasks
from anyseq.verdicts.verdict import NORMS, SECONDS, TARGETS, Finding, Verdict, met

Rule = Callable[[Question], Ruling | None]

RULES: tuple[Rule, ...] = (
    obstacles.ids,
    obstacles.final_norm,
    obstacles.reach,
    obstacles.positions,
    obstacles.symmetries,
    obstacles.readout,
    obstacles.feed_forward,
    proofs.covered,
    proofs.gather,
    proofs.rigid,
    proofs.readout,
    proofs.mean,
)
"""The rules that decide. Adding a theorem means adding a rule."""

PAPER_B: tuple[Rule, ...] = (
    papers.self_loops,
    papers.path,
    papers.all_reach,
    papers.concentrates,
)
"""The rules that only report on the fixed-width class."""


class NoLength(InvalidArgument):
    """A pattern that fits any number of tokens was given without a number."""


def check(
    what: Any,
    *,
    norm: str = "sup",
    target: str | None = None,
    tokens: int | None = None,
    bos: bool | None = None,
    example: Any = None,
    seconds: float = SECONDS,
) -> Verdict:
    """Whether `what` can approximate every continuous sequence-to-sequence function.

    what: a Design; a Pattern, its text ("window(64) | global(0)"), mask_mod, bool mask or
        BlockMask, or a tuple of them that repeats to alternate layers (a design with absolute
        positions); an anyseq, torch or Hugging Face model; a Hugging Face config, or the path of
        its JSON file or folder (./full, if its name is that of a pattern).
    norm: "sup", the largest error over the cube, or "lp", its mean to some power p. For token ids,
        which do not form a cube, use "sup" (docs/theorems.md, "Token ids").
    target: "all" functions, "causal" ones (f_i depends on x_0, ..., x_i only), or those
        "equivariant" under permutations of the tokens. Unless given, "causal" for a model in which
        no token reaches an earlier one, otherwise "all".
    tokens: the length, if `what` does not determine it; for a Hugging Face model the one that it
        was made for, unless given.
    bos: for a model, whether a BOS token comes first, which a tokenizer may put there; a Design
        says so itself. If this is unknown, a "no" that depends on it says so.
    example: the input of a torch module, if it cannot be guessed (`anyseq.read`).
    seconds: the time limit for the verdict, and again for repairs, paths and the table of the
        other questions together, when they are requested. What is not found by then is None.

    True and False are proved; everything else is None, with the reason.
    """
    positive("seconds", seconds)
    one_of("norm", norm, NORMS)
    if target is not None:
        one_of("target", target, TARGETS)
    if tokens is not None:
        _check_length(at_least_one("tokens", tokens))
    if bos not in (None, True, False):
        raise InvalidArgument(f"bos={bos!r}: expected True or False")
    if isinstance(what, str):
        what = _spoken(what)
    if _is_model(what):
        from anyseq.verdicts.models import check_model

        return check_model(
            what,
            norm=norm,
            target=target,
            tokens=tokens,
            bos=bos,
            example=example,
            seconds=seconds,
        )
    if example is not None:
        raise InvalidArgument("example: given; expected only with a torch module")
    if isinstance(what, Design) and tokens not in (None, what.tokens):
        raise InvalidArgument(f"tokens={tokens}, but the design has {what.tokens}")
    design = what if isinstance(what, Design) else _as_design(what, tokens)
    check_bos(design, bos)
    return check_design(design, norm, target or "all", seconds=seconds)


def check_bos(design: Design, bos: bool | None) -> None:
    """Check that no argument contradicts a design, which determines it."""
    if bos not in (None, design.bos):
        raise InvalidArgument(
            f"bos={bos}, but the design has bos={design.bos}; give a Design(..., bos={bos})"
        )


def check_design(
    design: Design,
    norm: str,
    target: str,
    facts: Facts | None = None,
    seconds: float = SECONDS,
) -> Verdict:
    """The verdict on a design; facts: what is known about it from an earlier question."""
    _check_length(design.tokens)
    facts = Facts(design) if facts is None else facts
    # no sequence of ids is negligible (docs/theorems.md, "Token ids")
    question = Question(facts, "sup" if design.domain == "ids" else norm, target)
    with within(seconds):
        rulings = list(_in_time(RULES, question, seconds))
        reach = _reach_in_time(question)
        against = [ruling for ruling in rulings if ruling.witness is not None]
        cannot = _tasks_in_time(question) if against else ()
    proof = next((ruling for ruling in rulings if ruling.certificate is not None), None)
    if against and proof is not None:
        raise ConstructionFault(
            f"the rules {against[0].finding.rule} and {proof.finding.rule} contradict each other "
            f"on {design}"
        )
    findings = tuple(ruling.finding for ruling in rulings)
    if any(one.rule == "rigidity" for one in findings):  # it says what "symmetries" says, and more
        findings = tuple(one for one in findings if one.rule != "symmetries")
    universal: bool | None = None
    if against:
        universal, reason = False, against[0].finding.saw
    elif proof is not None:
        universal, reason = True, proof.finding.saw
    else:
        reason = "; ".join(dict.fromkeys(one.saw for one in findings if one.holds is None))
    return Verdict(
        subject=describe(design),
        universal=universal,
        norm=norm,
        target=target,
        reason=reason,
        findings=findings,
        witness=against[0].witness if against else None,
        certificate=proof.certificate if proof else None,
        design=design,
        reach=reach,
        tasks=cannot,
        seconds=seconds,
        _fixed_width=lambda: tuple(
            ruling.finding for ruling in _in_time(PAPER_B, Question(facts, "lp", "all"), seconds)
        ),
        _fixed_width_proof=lambda: papers.fixed_width(Question(facts, "lp", "all")),
        _fixes=lambda: fixes(
            design,
            norm,
            target,
            lambda changed, norm, target: check_design(
                changed, norm, target, facts.changed(changed), seconds
            ),
            met(reach, design),
        ),
        _again=partial(check_design, design, facts=facts, seconds=seconds),
    )


def _in_time(rules: Sequence[Rule], question: Question, seconds: float) -> Iterator[Ruling]:
    """The rulings; a rule that runs out of time reports that."""
    for rule in rules:
        try:
            ruling = rule(question)
        except OutOfTime:
            saw = f"not decided in {seconds:g} s; give more seconds"
            ruling = Ruling(Finding(rule.__name__.replace("_", " "), None, saw, "no time left"))
        if ruling is not None:
            yield ruling


def _reach_in_time(question: Question) -> Reach | None:
    try:
        return question.reach
    except OutOfTime:
        return None


def _tasks_in_time(question: Question) -> tuple[Task, ...]:
    try:
        return tasks(question)
    except OutOfTime:
        return ()


def _is_model(what: Any) -> bool:
    if isinstance(what, torch.nn.Module | Mapping | str | PathLike):
        return True
    # by name, since transformers may not be there; the name has changed once
    names = {cls.__name__ for cls in type(what).__mro__}
    return not names.isdisjoint({"PreTrainedConfig", "PretrainedConfig"})


def _check_length(tokens: int) -> None:
    if tokens > LONGEST:
        raise InvalidArgument(
            f"tokens={tokens}: expected fewer; verdicts are for up to {LONGEST:,}"
        )


def _spoken(what: str) -> Pattern | str:
    """The pattern that a string names, or the path of a config; the error names both
    possibilities."""
    try:
        return parse_pattern(what)
    except InvalidArgument as problem:
        if Path(what).suffix == ".json" or Path(what).exists():
            return what
        raise InvalidArgument(
            f"what={what!r}: there is no such file; expected the path of a config.json, or a "
            "Design, a pattern, a mask or a model; nothing is downloaded: save the config and give "
            f"the path of its file; and it names no pattern: {problem}"
        ) from None


def _as_design(what: Any, tokens: int | None) -> Design:
    """A pattern, or a tuple of them, as a design with absolute positions."""
    if isinstance(what, list) and any(isinstance(part, Pattern | str) for part in what):
        raise InvalidArgument(
            "what: a list of patterns; expected a tuple, which repeats to alternate layers"
        )
    given = what if isinstance(what, tuple) and what else (what,)
    cycle = tuple(map(_as_pattern, given))
    lengths = {one.natural_length for one in cycle if one.natural_length is not None}
    if len(lengths) > 1:
        raise InvalidArgument(f"what: masks for {sorted(lengths)} tokens; expected one length")
    length = lengths.pop() if lengths else None
    if length is None and tokens is None:
        raise NoLength("tokens=None: give the number of tokens; the pattern fits any number")
    if length is not None and tokens not in (None, length):
        raise InvalidArgument(f"tokens={tokens}, but the mask is for {length}")
    size = at_least_one("tokens", tokens if length is None else length)
    index, zero = torch.arange(size), torch.zeros((), dtype=torch.int64)
    for part in given:
        if callable(part):  # what is wrong with somebody's function is said here, by its own error
            evaluated(part, zero, zero, index[:, None], index[None, :2])
    return Design(size, patterns=cycle)


def _as_pattern(given: Any) -> Pattern:
    block_mask = hasattr(given, "mask_mod")
    if not (
        isinstance(given, Pattern | str | torch.Tensor | list) or callable(given) or block_mask
    ):
        raise InvalidArgument(
            f"what={given!r}: expected a Pattern, a mask_mod(b, h, i, j), a bool mask, a "
            "BlockMask, a tuple of them, a Design, a model, a config or the path of one"
        )
    if isinstance(given, torch.Tensor):
        square = given.ndim == 2 and given.shape[0] == given.shape[1]
        if not square or given.dtype != torch.bool:
            raise InvalidArgument(
                f"what: a tensor of dtype {given.dtype} and shape {tuple(given.shape)}; expected a "
                "square bool mask (n, n), True = may attend"
            )
        at_least_one("tokens", given.shape[-1])
    return as_pattern(given)
