"""A verdict on one screen."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from anyseq.base import table_html, text_html
from anyseq.positions import Absolute

if TYPE_CHECKING:
    from anyseq.verdicts.verdict import Finding, Fix, Verdict

ANSWERS = {True: "yes", False: "no", None: "unknown"}

AS_READ = "as read"
"""What facts about a model rest on, in place of a theorem."""

_Row = tuple[str, str]
_WIDTH = 80
_REPAIRS = 3  # shown; the screen is small


def verdict_text(verdict: Verdict) -> str:
    """The headline; then why (findings, tasks, witness or proof), repairs, and the other norms and
    targets."""
    parts = [
        [*_wrapped("", verdict.headline), "", *_wrapped("", verdict.subject)],
        *([line for row in rows for line in _wrapped(*row)] for rows in _rows(verdict)),
        [textwrap.indent(verdict.table(), "  ")],
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def verdict_html(verdict: Verdict) -> str:
    """The same for a notebook."""
    rows = [row for part in _rows(verdict) for row in part]
    what = table_html(("", verdict.subject), rows, title=verdict.headline)
    return f"{what}\n{text_html(verdict.table())}"


def _rows(verdict: Verdict) -> list[list[_Row]]:
    """Labels and sentences: findings, tasks, what shows the answer, repairs."""
    tasks = [("task", str(task)) for task in verdict.tasks]
    return [list(_found(verdict)), tasks, list(_shown(verdict)), list(_repairs(verdict))]


def _found(verdict: Verdict) -> Iterator[_Row]:
    for one in verdict.findings:
        if one.theorem == AS_READ:
            head = "known" if one.rule == "declared" else one.rule
            yield head, one.saw
            continue
        said = f"{one.rule}: {one.saw.rstrip('.')} [{one.theorem}]"
        yield ANSWERS[one.holds], said
    if verdict.assumes:
        yield "assumes", "what was seen, in a copy with random weights"


def _shown(verdict: Verdict) -> Iterator[_Row]:
    """The proof of the answer, and what else is known."""
    if verdict.witness is not None:
        yield "witness", str(verdict.witness)
    if verdict.certificate is not None:
        yield "proof", str(verdict.certificate)
    if verdict.witness is not None and verdict.witness.name == "W5":
        hint = "no layer attends to later tokens; for causal functions use target='causal'"
        yield "note", hint
    design = verdict.design
    plain = design is not None and design.layers is None and design.position == Absolute()
    if plain and design is not None and design.depth is None:
        conditions = ", ".join(map(_condition, verdict.fixed_width))
        known = f"conditions of Yun et al. 2020b for fixed width, in L^p: {conditions}"
        yield "also", known


def _repairs(verdict: Verdict) -> Iterator[_Row]:
    for fix in verdict.fixes[:_REPAIRS]:
        yield "repair", f"{fix.change} ({_cost(fix)})"
    if len(verdict.fixes) > _REPAIRS:
        yield "repair", f"and {len(verdict.fixes) - _REPAIRS} more, in verdict.fixes"
    if not verdict.fixes_complete:
        yield "repair", f"not all were tried in {verdict.seconds:g} s"


def _cost(fix: Fix) -> str:
    """In connections, parameters, and keys of a cache, if there is one."""
    cost = f"{fix.connections:+,} connections a layer, {fix.parameters}"
    return cost if fix.keys is None else f"{cost}, {fix.keys:,} keys kept a layer"


def _condition(one: Finding) -> str:
    """One of paper B's conditions; if it is not known, why."""
    if one.holds is None or (one.rule == "s" and one.holds):
        return one.saw
    return f"{one.rule} {ANSWERS[one.holds]}"


def _wrapped(label: str, text: str) -> list[str]:
    start = f"  {label:<8}" if label else ""
    return textwrap.wrap(
        text, _WIDTH, initial_indent=start, subsequent_indent=" " * len(start),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
