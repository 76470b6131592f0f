"""Which functions a design is used for."""

from __future__ import annotations

from contextlib import suppress

import torch

from anyseq.construct.request import probe
from anyseq.construct.request.ask import Ask
from anyseq.construct.request.error import LP, SUP
from anyseq.construct.request.target import Target
from anyseq.construct.request.verdicts import Verdicts
from anyseq.design import Design
from anyseq.errors import CannotApproximate, InvalidArgument
from anyseq.positions import NoPosition

ASSUMES = {
    "causal": "f is causal: output i depends on tokens 0, ..., i only (no contradiction in 256 "
    "samples)",
    "equivariant": "f commutes with permutations of the tokens (no contradiction in 256 samples)",
}
"""What is assumed of f, by kind; nothing for "all"."""


def kind_of_function(design: Design, norm: str, verdicts: Verdicts | None = None) -> str:
    """The largest class, "all", "causal" or "equivariant", that `check` proves a design universal
    for; "all" where it proves nothing, so that the methods give the reason."""
    verdicts = verdicts or Verdicts()
    with suppress(InvalidArgument):  # a probability map of which no theorem speaks
        for kind in ("all", *ASSUMES):
            if verdicts.of(design, SUP if norm == SUP else LP, kind).universal:
                return kind
    return "all"


def kind_asked(ask: Ask) -> str:
    """The same of a question."""
    return kind_of_function(ask.design, ask.norm, ask.verdicts)


def check_kind(
    design: Design, norm: str, target: Target, rng: torch.Generator, verdicts: Verdicts
) -> None:
    """Raise an error if samples show that f is not of the kind that the design is for."""
    kind = kind_of_function(design, norm, verdicts)
    try:
        if kind == "causal":
            probe.check_causal(target, rng)
        if kind == "equivariant":
            probe.check_equivariant(target, rng)
    except CannotApproximate as refusal:
        if isinstance(design.position, NoPosition):
            raise
        witness = verdicts.of(design, SUP if norm == SUP else LP).witness
        raise CannotApproximate(
            f"not every f can be expressed by this design, and this one is not {kind}",
            (str(witness), *refusal.reasons),
        ) from None
