"""Paper B's sufficient conditions for the fixed-width class ST^{2,1,4}, each reported by itself.

Assumption 1: every token attends to itself in every pattern; the union of the patterns has a
Hamiltonian path; every token reaches every token. Assumption 2: the probability map can put nearly
all weight on a score that leads. With absolute positions they give universality in L^p with 2 heads
of size 1 and 4 hidden units. They are reported only; the verdict itself, for free width, does not
need them.
"""

from __future__ import annotations

import torch

from anyseq.positions import Absolute
from anyseq.verdicts.certificate import Certificate
from anyseq.verdicts.question import Question
from anyseq.verdicts.ruling import Ruling
from anyseq.verdicts.verdict import Finding

_ONE, _TWO = "Yun et al. 2020b, Assumption 1", "Yun et al. 2020b, Assumption 2"


def self_loops(question: Question) -> Ruling:
    """Assumption 1.1: k in A_k, in every pattern."""
    size = question.size
    index, zero = torch.arange(size), torch.zeros((), dtype=torch.int64)
    lacking = [
        int((~seen).nonzero()[0])
        for pattern in question.design.cycle
        for part in pattern.heads()
        if not bool((seen := part.at(size)(zero, zero, index, index).expand(size)).all())
    ]
    if lacking:
        return _info("self-loops", False, f"position {lacking[0]} does not attend to itself", _ONE)
    return _info("self-loops", True, "every token attends to itself", _ONE)


def path(question: Question) -> Ruling:
    """Assumption 1.2: an order in which every token attends to the one before it."""
    found = question.path
    saw = {
        True: f"there is a Hamiltonian path ({found.method})",
        False: f"there is no Hamiltonian path ({found.method})",
        None: f"whether there is a Hamiltonian path is not known ({found.message})",
    }[found.exists]
    return _info("path", found.exists, saw, _ONE)


def all_reach(question: Question) -> Ruling:
    """Assumption 1.3: a finite s after which every token reaches every token."""
    layers = question.facts.reach("all").layers
    if layers is None:
        return _info("s", False, "some token never reaches another", _ONE)
    return _info("s", True, f"s = {layers}", _ONE)


def concentrates(question: Question) -> Ruling:
    """Assumption 2: ρ(t·v) tends to hardmax as t grows; so do all maps of this library."""
    name = type(question.layers[0].probability).__name__.lower()
    return _info("concentration", True, f"{name} can put its weight on one token", _TWO)


def fixed_width(question: Question) -> Certificate | None:
    """The certificate that networks of fixed width are universal in L^p, if all conditions hold."""
    design, reach, path = question.design, question.facts.reach("all"), question.path
    rulings = (self_loops(question), concentrates(question))
    if not (
        all(ruling.finding.holds for ruling in rulings)
        and isinstance(design.position, Absolute)
        and not (design.bos or any(layer.sinks for layer in question.layers))
        and all(len(pattern.heads()) == 1 for pattern in design.cycle)
        and question.uncovered is None
        and all(layer.attends for layer in question.layers)
        and (design.block_norm, design.final_norm, design.readout) == (None, None, "all")
        and design.depth is None
        and path.order is not None
        and reach.layers is not None
    ):
        return None
    return Certificate(
        kind="fixed width",
        design=design,
        target="all",
        layers=reach.layers,
        proof=reach.proof,
        hub=reach.hub,
        order=path.order,
    )


def _info(rule: str, holds: bool | None, saw: str, theorem: str) -> Ruling:
    return Ruling(Finding(rule, holds, saw, theorem))
