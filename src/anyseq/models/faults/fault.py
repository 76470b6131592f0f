"""What an audit found: faults, advice, and what it did and did not check."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import isfinite
from textwrap import indent, wrap
from typing import Any

from anyseq.base import layers_named, table_html, text_html

_COLUMNS = 80
_MARGIN = 19
_SNIPPET = "This shows the first fault on `model`:"


@dataclass(frozen=True)
class Fault:
    """One way in which a model does not attend as it declares.

    rule: "future" (an output depends on a later token of a causal model), "window" (a layer attends
        to a token that its declaration hides), "lost" (it does not attend to one that is declared),
        "position" (a layer uses other positions than declared), "padding", "documents", "cache",
        "rows" (rows of a batch influence each other), "random" (two runs differ), "gradient"
        (gradients follow other pairs of tokens than the forward pass), "implementations" (eager,
        sdpa and anyseq's attention disagree).
    says: what is wrong, in a sentence.
    layers: where, counted from 1; () for the model as a whole. module: the name of the first of
        these layers in the model, or of the part of it that is at fault, where that is known.
    pair: (i, j): output i, and the token j that it depends on, or should; counted from 0.
    size: how much output i differs from what it should be, relative to the largest number there.
    snippet: Python that shows it on the audited model, named `model`.
    repair: what to do, where that is known.
    """

    rule: str
    says: str
    layers: tuple[int, ...] = ()
    module: str = ""
    pair: tuple[int, int] | None = None
    size: float = 0.0
    snippet: str = ""
    repair: str | None = None

    def __str__(self) -> str:
        return "\n".join(_item(self.rule, self._sentences()))

    def _sentences(self) -> Iterator[str]:
        where = f"{self.module}: " if self.module else ""
        if self.layers:
            where = f"{layers_named(self.layers)} ({self.module}): "
        effect = f" (effect {self.size:.2g})" if self.size > 0 else ""
        yield f"{where}{self.says}{effect}"
        if self.repair is not None:
            yield f"repair: {self.repair}"


@dataclass(frozen=True)
class Check:
    """What was checked, and where a fault might still hide; or why it was not checked."""

    name: str
    says: str


@dataclass(frozen=True)
class Audit:
    """Whether a model attends as it declares.

    subject: the model, and what of it was run. declared: where its declaration comes from.
    faults: what contradicts it.
    notes: advice, which is not a fault.
    checked: what was checked, each with the risk that it missed something.
    skipped: what was not, and why.
    """

    subject: str
    declared: str
    faults: tuple[Fault, ...]
    notes: tuple[str, ...]
    checked: tuple[Check, ...]
    skipped: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether no fault was found."""
        return not self.faults

    def to_dict(self) -> dict[str, Any]:
        """For JSON, which has no infinity: a size that is infinite is None."""
        found = {"passed": self.passed} | asdict(self)
        for one in found["faults"]:
            one["size"] = one["size"] if isfinite(one["size"]) else None
        return found

    def __str__(self) -> str:
        lines = [*wrap(self._headline, _COLUMNS), ""]
        for fault in self.faults:
            lines += [str(fault), ""]
        for head, sentence in self._rows():
            lines += _item(head, [sentence])
        if self.faults:
            lines += ["", f"  {_SNIPPET}", "", indent(self._snippet, "    ")]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [(fault.rule, "\n".join(fault._sentences())) for fault in self.faults]
        shown = table_html(("", ""), [*rows, *self._rows()], title=self._headline)
        return f"{shown}\n<p>{_SNIPPET}</p>{text_html(self._snippet)}" if self.faults else shown

    @property
    def _headline(self) -> str:
        count = len(self.faults)
        verdict = "no fault found" if self.passed else f"{count} fault{'s' * (count > 1)} found"
        return f"{self.subject}: {verdict}"

    @property
    def _snippet(self) -> str:
        return self.faults[0].snippet.rstrip()

    def _rows(self) -> Iterator[tuple[str, str]]:
        """All but the faults: a label and a sentence."""
        yield "declared", self.declared
        if self.checked:
            yield "checked", ", ".join(one.name for one in self.checked)
        for one in self.skipped:
            yield "skipped", f"{one.name}: {one.says}"
        for note in self.notes:
            yield "note", note


def _item(head: str, sentences: Iterator[str] | list[str]) -> list[str]:
    lines = []
    for sentence in sentences:
        first = f"  {head:<{_MARGIN - 2}}"
        lines += wrap(sentence, _COLUMNS, initial_indent=first, subsequent_indent=" " * _MARGIN)
        head = ""
    return lines
