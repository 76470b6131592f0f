"""A verdict on one screen."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from anyseq.positions import Absolute

if TYPE_CHECKING:
    from anyseq.verdicts.verdict import Finding, Verdict

ANSWERS = {True: "yes", False: "no", None: "unknown"}

AS_READ = "as read"
"""What facts about a model rest on, in the place of a theorem."""

_WIDTH = 80


def verdict_text(verdict: Verdict) -> str:
    """Answer, findings, witness or certificate, repairs, and the other norms and targets."""
    kinds = {"all": "every function", "causal": "every causal function",
             "equivariant": "every equivariant function"}  # fmt: skip
    answer = {
        True: "YES: it can express",
        False: "NO: it cannot express",
        None: "UNKNOWN: whether it can express",
    }[verdict.universal]
    norm = "sup norm" if verdict.norm == "sup" else "L^p"
    lines = [
        *_wrapped("", verdict.subject),
        "",
        *_wrapped("", f"{answer} {kinds[verdict.target]} in {norm}: {verdict.reason.rstrip('.')}."),
        "",
    ]
    for one in verdict.findings:
        if one.theorem == AS_READ:
            head = "known" if one.rule == "declared" else one.rule
            lines += _wrapped(f"  {head:<8}", one.saw)
            continue
        lines += _wrapped(
            f"  {ANSWERS[one.holds]:<8}", f"{one.rule}: {one.saw.rstrip('.')} [{one.theorem}]"
        )
    if verdict.assumes:
        lines += _wrapped("  assumes ", "what was seen, in a copy with random weights")
    if verdict.witness is not None:
        lines += ["", *_wrapped("  witness ", str(verdict.witness))]
    if verdict.certificate is not None:
        lines += ["", *_wrapped("  proof   ", str(verdict.certificate))]
    if verdict.witness is not None and verdict.witness.name == "W5":
        hint = "no layer sees later tokens; the target causal asks about causal functions"
        lines += ["", *_wrapped("  note    ", hint)]
    design = verdict.design
    plain = design is not None and design.layers is None and design.position == Absolute()
    if plain and design is not None and design.depth is None:
        conditions = ", ".join(map(_condition, verdict.fixed_width))
        known = f"conditions of Yun et al. 2020b for fixed width, in L^p: {conditions}"
        lines += ["", *_wrapped("  also    ", known)]
    if verdict.fixes or not verdict.fixes_complete:
        lines.append("")
    for fix in verdict.fixes:
        cost = f"{fix.connections:+,} connections a layer, {fix.parameters}"
        lines += _wrapped("  repair  ", f"{fix.change} ({cost})")
    if not verdict.fixes_complete:
        lines += _wrapped("  repair  ", f"not all were tried in {verdict.seconds:g} s")
    lines += ["", textwrap.indent(verdict.table(), "  ")]
    return "\n".join(lines)


def _condition(one: Finding) -> str:
    """One of paper B's conditions; what is not known says why."""
    if one.holds is None or (one.rule == "s" and one.holds):
        return one.saw
    return f"{one.rule} {ANSWERS[one.holds]}"


def _wrapped(start: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=start, subsequent_indent=" " * len(start),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
