"""A rule of an audit, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from anyseq.models.faults.claims import Claims
from anyseq.models.faults.fault import Fault
from anyseq.models.faults.subject import Subject


@dataclass(frozen=True)
class Note:
    """Advice, which is not a fault."""

    says: str


class NotChecked(Exception):
    """Why a rule does not apply to a model."""


@dataclass(frozen=True)
class Asked:
    """What a rule checks.

    own: makes a small copy of transformers' own model of the same config; None where there is none.
        It shows what is not a fault but a property of the family.
    """

    subject: Subject
    claims: Claims
    own: Callable[[], Subject] | None = field(default=None, compare=False)

    @cached_property
    def healthy(self) -> Subject | None:
        """Transformers' own model of the same config, where there is one."""
        return None if self.own is None else self.own()


@dataclass(frozen=True)
class Rule:
    """name: of the check. run: its findings. risk: what it may miss, in words. compares: whether it
    rests on outputs of several runs."""

    name: str
    run: Callable[[Asked], Iterator[Fault | Note]]
    risk: str
    compares: bool = True
