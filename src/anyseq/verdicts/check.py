"""`anyseq.check`: can this design express every function?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from os import PathLike
from typing import Any

import torch

from anyseq.base import at_least_one, one_of
from anyseq.design import Design
from anyseq.errors import ConstructionFault, InvalidArgument
from anyseq.patterns import Pattern, as_pattern, evaluated
from anyseq.verdicts import obstacles, papers, proofs
from anyseq.verdicts.describe import describe
from anyseq.verdicts.fixes import fixes
from anyseq.verdicts.question import Facts, Question
from anyseq.verdicts.ruling import Ruling
from anyseq.verdicts.verdict import NORMS, TARGETS, Verdict

Rule = Callable[[Question], Ruling | None]

RULES: tuple[Rule, ...] = (
    obstacles.final_norm,
    obstacles.reach,
    obstacles.positions,
    obstacles.symmetries,
    obstacles.feed_forward,
    proofs.gather,
    proofs.rigid,
    proofs.mean,
)
"""What decides. Adding a theorem is adding a rule."""

PAPER_B: tuple[Rule, ...] = (
    papers.self_loops,
    papers.path,
    papers.all_reach,
    papers.concentrates,
)
"""What informs about the fixed-width class."""


def check(
    what: Any, *, norm: str = "sup", target: str = "all", tokens: int | None = None
) -> Verdict:
    """Whether `what` can approximate every continuous sequence-to-sequence function.

    what: a Design; a Pattern, mask_mod, bool mask or BlockMask (as a design with absolute
        positions); an anyseq, torch or Hugging Face model; a Hugging Face config, or the path of
        its JSON file.
    norm: "sup", the largest error over the cube, or "lp", its mean to some power p.
    target: "all" functions, "causal" ones (f_i looks at x_0, ..., x_i), or those "equivariant"
        under permutations of the tokens.
    tokens: the length, where `what` does not say it.

    True and False are proved; everything else is None, with the reason.
    """
    one_of("norm", norm, NORMS)
    one_of("target", target, TARGETS)
    if tokens is not None:
        at_least_one("tokens", tokens)
    if isinstance(what, Design):
        if tokens not in (None, what.tokens):
            raise InvalidArgument(f"tokens={tokens}, but the design has {what.tokens}")
        return check_design(what, norm, target)
    if _is_model(what):
        from anyseq.verdicts.models import check_model

        return check_model(what, norm=norm, target=target, tokens=tokens)
    return check_design(_as_design(what, tokens), norm, target)


def check_design(design: Design, norm: str, target: str, facts: Facts | None = None) -> Verdict:
    """The verdict on a design; facts: what is known of it from an earlier question."""
    facts = Facts(design) if facts is None else facts
    question = Question(facts, norm, target)
    rulings = [ruling for rule in RULES if (ruling := rule(question)) is not None]
    against = [ruling for ruling in rulings if ruling.witness is not None]
    proof = next((ruling for ruling in rulings if ruling.certificate is not None), None)
    if against and proof is not None:
        raise ConstructionFault(
            f"the rules {against[0].finding.rule} and {proof.finding.rule} contradict each other "
            f"on {design}"
        )
    findings = tuple(ruling.finding for ruling in rulings)
    universal: bool | None = None
    if against:
        universal, reason = False, against[0].finding.saw
    elif proof is not None:
        universal, reason = True, proof.finding.saw
    else:
        reason = "; ".join(one.saw for one in findings if one.holds is None)
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
        reach=question.reach,
        _fixed_width=lambda: tuple(
            ruling.finding
            for rule in PAPER_B
            if (ruling := rule(Question(facts, "lp", "all"))) is not None
        ),
        _fixed_width_proof=lambda: papers.fixed_width(Question(facts, "lp", "all")),
        _fixes=partial(fixes, design, norm, target, check_design),
        _again=partial(check_design, design, facts=facts),
    )


def _is_model(what: Any) -> bool:
    if isinstance(what, torch.nn.Module | Mapping | str | PathLike):
        return True
    # by name, since transformers may not be there; the name has changed once
    names = {cls.__name__ for cls in type(what).__mro__}
    return not names.isdisjoint({"PreTrainedConfig", "PretrainedConfig"})


def _as_design(what: Any, tokens: int | None) -> Design:
    """A pattern as a design with absolute positions."""
    if isinstance(what, torch.Tensor):
        if what.ndim < 2 or what.shape[-1] != what.shape[-2] or what.dtype != torch.bool:
            raise InvalidArgument(
                f"what: a tensor of dtype {what.dtype} and shape {tuple(what.shape)}; expected a "
                "square bool mask, True = may attend"
            )
        at_least_one("tokens", what.shape[-1])
    pattern: Pattern = as_pattern(what)
    length = pattern.natural_length
    if length is None and tokens is None:
        raise InvalidArgument("tokens=None: say for how many tokens; the pattern fits any number")
    if length is not None and tokens not in (None, length):
        raise InvalidArgument(f"tokens={tokens}, but the mask is for {length}")
    size = length or at_least_one("tokens", tokens)
    if callable(what):  # what is wrong with somebody's function is said here, by its own error
        zero = torch.zeros((), dtype=torch.int64)
        evaluated(what, zero, zero, torch.arange(size)[:, None], torch.arange(min(size, 2))[None])
    return Design(size, patterns=pattern)
