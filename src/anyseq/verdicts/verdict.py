"""What `check` answers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

from anyseq.base import OutOfTime, one_of, remaining, table, within
from anyseq.design import Design
from anyseq.graph import Reach
from anyseq.verdicts.certificate import Certificate
from anyseq.verdicts.headline import headline
from anyseq.verdicts.text import ANSWERS, verdict_html, verdict_text
from anyseq.verdicts.witness import Witness

if TYPE_CHECKING:
    from anyseq.verdicts.tasks import Task

T = TypeVar("T")

NORMS = ("sup", "lp")
SECONDS = 30.0
"""The default time limit of a verdict, and as much again for everything else about it."""
TARGETS = ("all", "causal", "equivariant")


def _none() -> None:
    return None


def no_fixes() -> tuple[tuple[Fix, ...], bool]:
    """None, and nothing else to search for."""
    return (), True


def met(reach: Reach | None, design: Design) -> bool:
    """Whether all wanted pairs are known to be reached within the depth of a design."""
    if reach is None or reach.layers is None:
        return False
    return design.depth is None or reach.layers <= design.depth


@dataclass(frozen=True)
class Finding:
    """One finding of a verdict.

    rule: the name of its rule.
    holds: whether the condition of the rule holds; None if that is not known.
    saw: what was seen. theorem: what it rests on.
    """

    rule: str
    holds: bool | None
    saw: str
    theorem: str


@dataclass(frozen=True)
class Fix:
    """A change that makes the design universal, checked before it is offered.

    design: the changed design.
    connections: how many more a layer has, at most.
    parameters: how many more are learned, in words, since widths are free.
    keys: how many a layer of the changed design keeps in its cache, on average; None if it attends
        to later tokens and has no cache.
    """

    change: str
    design: Design
    connections: int
    parameters: str
    keys: int | None


@dataclass(frozen=True, eq=False)
class Verdict:
    """Whether a design can express every continuous function of its target class.

    universal: True (then there is a certificate), False (then there is a witness), or None: not
        known.
    norm: "sup" or "lp".
    target: "all", "causal" (f_i depends on x_0, ..., x_i only) or "equivariant" (permuting the
        tokens permutes the outputs).
    reason: one sentence.
    findings: everything that was checked.
    assumes: facts that were seen in a model, not declared, and on which the answer rests.
    tasks: what a "no" means in task units: accuracy at most, loss at least.
    open_bos: for a model, whether it is unknown if a BOS token comes first.
    width: for a model with weights, how many features a token has, if that is known.
    at_some_width: whether its width alone keeps the answer from True.
    seconds: the time that was allowed.
    """

    subject: str
    universal: bool | None
    norm: str
    target: str
    reason: str
    findings: tuple[Finding, ...]
    witness: Witness | None = None
    certificate: Certificate | None = None
    design: Design | None = None
    reach: Reach | None = None
    assumes: tuple[str, ...] = ()
    tasks: tuple[Task, ...] = ()
    open_bos: bool = False
    width: int | None = None
    at_some_width: bool = False
    seconds: float = SECONDS
    _fixed_width: Callable[[], tuple[Finding, ...]] = field(default=tuple, repr=False)
    _fixed_width_proof: Callable[[], Certificate | None] = field(default=_none, repr=False)
    _fixes: Callable[[], tuple[tuple[Fix, ...], bool]] = field(default=no_fixes, repr=False)
    _again: Callable[[str, str], Verdict] | None = field(default=None, repr=False)
    _kept: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def meets(self) -> bool:
        """Whether all required pairs are known to be reached within the depth."""
        return self.design is not None and met(self.reach, self.design)

    @property
    def headline(self) -> str:
        """What the design can and cannot do, in words."""
        return headline(self)

    @property
    def fixes(self) -> tuple[Fix, ...]:
        """The cheapest repairs of a design that is not universal, cheapest first."""
        return self._repairs[0]

    @property
    def fixes_complete(self) -> bool:
        """Whether all known repairs were tried: False if the time was used up."""
        return self._repairs[1]

    @property
    def _repairs(self) -> tuple[tuple[Fix, ...], bool]:
        return self._once("fixes", lambda: no_fixes() if self.universal else self._fixes())

    @property
    def fixed_width(self) -> tuple[Finding, ...]:
        """Paper B's conditions for its class of fixed width, ST^{2,1,4}, one by one; L^p."""
        return self._once("fixed width", self._fixed_width)

    def _once(self, name: str, find: Callable[[], T]) -> T:
        """What `find` finds in the time allowed; cached, unless an enclosing budget left it less
        time, so that a later call may find more."""
        if name not in self._kept:
            hurried = remaining() < self.seconds
            with within(self.seconds):
                found = find()
                if hurried and remaining() < 0:
                    return found
            self._kept[name] = found
        return cast(T, self._kept[name])

    @cached_property
    def fixed_width_certificate(self) -> Certificate | None:
        """The certificate that networks of fixed width are universal in L^p, if all those
        conditions hold, and are found in time."""
        with within(self.seconds), suppress(OutOfTime):
            return self._fixed_width_proof()
        return None

    def ask(self, norm: str, target: str) -> Verdict:
        """The verdict on the same thing for another norm and target."""
        one_of("norm", norm, NORMS)
        one_of("target", target, TARGETS)
        if (norm, target) == (self.norm, self.target) or self._again is None:
            return self
        return self._again(norm, target)

    def table(self) -> str:
        """The answers for all norms and targets, as text."""
        rows = []
        for target in TARGETS:
            answers = [self.ask(norm, target).universal for norm in NORMS]
            rows.append([target, *(ANSWERS[answer] for answer in answers)])
        return table(["target", *NORMS], rows)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready summary."""
        with within(self.seconds):
            return self._summary()

    def _summary(self) -> dict[str, Any]:
        witness = self.witness
        return {
            "headline": self.headline,
            "subject": self.subject,
            "universal": self.universal,
            "norm": self.norm,
            "target": self.target,
            "reason": self.reason,
            "assumes": list(self.assumes),
            "findings": [
                {"rule": one.rule, "holds": one.holds, "saw": one.saw, "theorem": one.theorem}
                for one in self.findings
            ],
            "tasks": [
                {"task": one.task, "accuracy": one.accuracy, "loss": one.loss} for one in self.tasks
            ],
            "witness": None
            if witness is None
            else {
                "name": witness.name,
                "function": witness.function,
                "why": witness.why,
                "norm": witness.norm,
                "bound": witness.bound,
            },
            "table": {
                target: {norm: self.ask(norm, target).universal for norm in NORMS}
                for target in TARGETS
            },
            "reach": None
            if self.reach is None
            else {
                "layers": self.reach.layers,
                "unreached": self.reach.unreached,
                "last": self.reach.last,
                "connections": self.reach.connections,
                "sparsity": self.reach.sparsity,
            },
            "fixed_width": {one.rule: one.holds for one in self.fixed_width},
            "certificate": None if self.certificate is None else self.certificate.to_dict(),
            "fixes": [
                {
                    "change": fix.change,
                    "connections": fix.connections,
                    "parameters": fix.parameters,
                    "keys": fix.keys,
                }
                for fix in self.fixes
            ],
            "fixes_complete": self.fixes_complete,
        }

    def __str__(self) -> str:
        with within(self.seconds):
            return verdict_text(self)

    def _repr_html_(self) -> str:
        with within(self.seconds):
            return verdict_html(self)
