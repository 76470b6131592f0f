"""The first line of a verdict: what the design can and cannot do, in words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anyseq.base import layers_text

if TYPE_CHECKING:
    from anyseq.design import Design
    from anyseq.verdicts.verdict import Verdict

_KINDS = {
    "all": "every function",
    "causal": "every causal function",
    "equivariant": "every equivariant function",
}


def headline(verdict: Verdict) -> str:
    """One sentence, or two."""
    if verdict.at_some_width and verdict.width is not None:
        yes = _yes(replace(verdict, width=None))
        return f"Not known at its own width of {verdict.width:,}. {yes}."
    if verdict.universal or verdict.at_some_width:
        return f"{_yes(verdict)}."
    if verdict.universal is None:
        return f"Not known: {verdict.reason.rstrip('.')}."
    witness = verdict.witness
    name = "" if witness is None else witness.name
    if name == "W6":
        return f"No: {_unreached(verdict)}."
    if name == "W5":
        return "No: no token depends on a later one, so it computes causal functions only."
    if name in ("W1", "W8"):
        return _stuck(verdict)
    if witness is not None and name in ("W2", "W3", "W4", "W7", "W10", "W11"):
        why = witness.why.rstrip(".")
        return f"No{_in_norm(verdict)}: {why[0].lower()}{why[1:]}."
    return f"No: {verdict.reason.rstrip('.')}."


def _yes(verdict: Verdict) -> str:
    free = "at some width"
    if verdict.design is not None and verdict.design.depth is None:
        free += " and depth"
    if verdict.width is not None:
        free += f" (its own is {verdict.width:,})"
    read = "" if verdict.design is None else _read(verdict.design)
    kind = _KINDS[verdict.target]
    if any(one.rule == "encoder" for one in verdict.findings):
        kind = "every function of the input and of the outputs so far"
    return f"Yes {free}, for {kind}{read}{_in_norm(verdict)}"


def _read(design: Design) -> str:
    """Sequences of other lengths have their last tokens elsewhere."""
    if design.readout == "all":
        return ""
    where = "the last token" if design.readout == "last" else f"token {design.readout}"
    return f" of exactly {design.tokens:,} tokens, read at {where}"


def _in_norm(verdict: Verdict) -> str:
    return "" if verdict.norm == "sup" else ", in L^p"


def _unreached(verdict: Verdict) -> str:
    """How far the content of a token reaches within the depth."""
    reach, design = verdict.reach, verdict.design
    if reach is None or design is None or design.readout != "all":
        return verdict.reason.rstrip(".")
    if reach.layers is None and reach.unreached is not None:
        k, j = reach.unreached
        return f"token {j:,} never reaches token {k:,}, however many layers there are"
    k, j = reach.last[0]
    needed = layers_text(reach.layers or 0)
    return f"token {j:,} reaches token {k:,} after {needed}, it has {design.depth}"


def _stuck(verdict: Verdict) -> str:
    """Identical tokens stay identical at some positions; a BOS token may tell them apart."""
    lack = "it cannot tell how many equal tokens it has seen"
    if verdict.witness is not None and verdict.witness.name == "W1":
        lack = "it cannot tell equal tokens apart by their places"
    repaired = _with_bos(verdict)
    if repaired is None:
        return f"No: {lack}."
    if verdict.open_bos:
        return f"{repaired}, if a BOS token comes first; without one {lack}."
    return f"No: {lack}. With a BOS token first: {repaired[0].lower()}{repaired[1:]}."


def _with_bos(verdict: Verdict) -> str | None:
    """The answer if a BOS token came first; None if that is not enough."""
    design = verdict.design
    if design is None or design.bos:
        return None
    with_bos = [fix.design for fix in verdict.fixes if fix.design.bos]
    enough = any(replace(one, bos=False) == design for one in with_bos)
    return _yes(verdict) if enough else None
