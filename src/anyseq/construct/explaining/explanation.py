"""An explanation, as data and as text of 80 columns.

Tokens and heads count from 0, layers from 1.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from decimal import Decimal

import torch

from anyseq.base import table, text_html
from anyseq.construct.explaining.steps import Hit, Step
from anyseq.construct.explaining.told import Node
from anyseq.construct.network.stages import ID, WHOLE

_WIDTH = 80
_MOST = 8  # tokens, heads, layers or numbers; the rest is counted
_INDENT = "   "
_TABLE = "The look-up table behind result(x), computed without the layers,"


@dataclass(frozen=True, eq=False)
class Explanation:
    """x (tokens, features) -> y = T(x) (tokens, out_features), step by step.

    covered: whether the structured form speaks of x; it does not on a ramp or outside the domain.
    apart: the largest difference between network and structured form in any step.
    bound: lines about the error at x. nodes: what was interpolated, if anything was.
    """

    method: str
    layers: int
    x: torch.Tensor
    y: torch.Tensor
    covered: bool
    apart: float | None
    bound: str
    steps: tuple[Step, ...]
    nodes: tuple[Node, ...]

    def __str__(self) -> str:
        return explanation_text(self)

    def _repr_html_(self) -> str:
        return text_html(str(self))

    __repr__ = __str__


def explanation_text(made: Explanation) -> str:
    """x and T(x), then one paragraph a stage."""
    tokens = [
        (str(token), numbers_text(made.x[token]), numbers_text(made.y[token]))
        for token in range(min(len(made.x), _MOST))
    ]
    lines = [f'What method "{made.method}" did to one input, in {made.layers:,} layers', ""]
    lines += textwrap.indent(table(("token", "x", "T(x)"), tokens), _INDENT).splitlines()
    lines += _more(len(made.x), "token")
    compared = [step for step in made.steps if step.apart is not None]
    for number, step in enumerate(made.steps, 1):
        lines += ["", *_step(number, step, made.nodes)]
        if step.apart is not None:
            table_is = _TABLE if step is compared[0] else "The table"
            lines += _wrap(f"{table_is} agrees{_to(step.apart)}.")
    lines += ["", *_wrap(_agreement(made), ""), *_wrap(f"Error: {made.bound}.", "")]
    return "\n".join(lines)


def _agreement(made: Explanation) -> str:
    if not made.covered:
        return (
            "x is outside the look-up table behind result(x) (an entry on a ramp, or outside the "
            "domain), so that there is nothing to compare the network with."
        )
    if made.apart is None:
        return "The table of this method has no stages to compare the network with."
    if made.steps[0].stage.name == WHOLE:
        return (
            f'Method "{made.method}" names no stages: its layers are shown as one. The table '
            f"agrees{_to(made.apart)}."
        )
    return f"The layers were run one by one. The table agrees at every stage{_to(made.apart)}."


def _step(number: int, step: Step, nodes: tuple[Node, ...]) -> list[str]:
    count, last = step.stage.layers, step.first + step.stage.layers
    layers = f"layer {last:,}" if count == 1 else f"layers {step.first + 1:,} to {last:,}"
    title = f"{number}. {step.stage.name}"
    lines = [title + layers.rjust(_WIDTH - len(title)), *_wrap(step.stage.does)]
    for note in step.notes:
        lines += _wrap(note)
    if step.stage.name == "interpolate":
        for node in nodes[:_MOST]:
            point, value = (numbers_text(part.flatten()) for part in (node.point, node.value))
            lines += _wrap(f"node ({point}), weight {node.weight:.4g}: values {value}")
        lines += _more(len(nodes), "node")
    if not step.hits:
        return [*lines, *_wrap("Nothing changes for this x.")]
    done = step.first
    for hit in step.hits[:_MOST]:
        lines += _unchanging(done, hit.layer)
        lines += _wrap(f"layer {hit.layer + 1:,}: {_change(hit, step)}{_attends(hit)}")
        done = hit.layer + 1
    if len(step.hits) <= _MOST:
        lines += _unchanging(done, last)
    lines += _more(len(step.hits), "layer", " with changes")
    return lines + _readings(step)


def _unchanging(first: int, end: int) -> list[str]:
    """Layers first, ..., end - 1, counted from 0, do not change what is shown."""
    if end <= first:
        return []
    one = f"layer {end:,}: changes nothing that is shown"
    several = f"layers {first + 1:,} to {end:,}: change nothing that is shown"
    return _wrap(one if end == first + 1 else several)


def _change(hit: Hit, step: Step) -> str:
    """token 1: 16 -> 116; or what was added, if that was the same for all tokens. Where ids become
    something else, a token goes by its id: token 1, id 116: 0.25."""
    exact = step.stage.reading.label == ID
    changed = hit.changed
    added = hit.after - hit.before
    if len(changed) > 1 and len(changed) == len(added) and bool((added == added[0]).all()):
        return f"adds {numbers_text(added[0], exact=exact)} to every token"
    parts = []
    for token in changed[:_MOST]:
        after = numbers_text(hit.after[token], exact=exact)
        if step.ids is not None:
            parts.append(f"token {token}, id {_exact(float(step.ids[token]))}: {after}")
        else:
            before = numbers_text(hit.before[token], exact=exact)
            parts.append(f"token {token}: {before} -> {after}")
    return ", ".join(parts) + (", ..." if len(changed) > _MOST else "")


def _attends(hit: Hit) -> str:
    """What the heads of the changed tokens attend to."""
    parts = []
    for head, weights in list(hit.looks.items())[:_MOST]:
        bos = len(weights) - len(hit.after)
        weight, at = weights[[bos + token for token in hit.changed]].max(1)
        places = sorted(set(at.tolist()))
        one = len(places) == 1 and bool((weight > 0.999).all())
        parts.append(f"head {head} to {_place(places[0], bos) if one else 'several'}")
    more = ", ..." if len(hit.looks) > _MOST else ""
    return f" (attends: {', '.join(parts)}{more})" if parts else ""


def _place(position: int, bos: int) -> str:
    return "BOS" if position < bos else f"token {position - bos}"


def _readings(step: Step) -> list[str]:
    """What was read off the tokens, in one line where that will do."""
    label, values = step.stage.reading.label, step.after
    if len(values) > 1 and bool((values == values[0]).all()) and values.shape[1] > 1:
        return _wrap(f"{label}, in every token: {numbers_text(values[0])}")
    if values.shape[1] == 1:
        numbers = numbers_text(values[:, 0], exact=label == ID)
        return _wrap(f"{label}, token by token: {numbers}{_different(step)}")
    lines = []
    for token in range(min(len(values), _MOST)):
        lines += _wrap(f"{label}, token {token}: {numbers_text(values[token])}")
    return lines + _more(len(values), "token")


def _different(step: Step) -> str:
    if step.stage.reading.label != ID or len(step.after) == 1:
        return ""
    many = len(step.after.unique())
    return " (all different)" if many == len(step.after) else f" ({many} different)"


def _to(apart: float) -> str:
    return " exactly" if apart == 0.0 else f" to {apart:.1g}"


def _more(count: int, kind: str, which: str = "") -> list[str]:
    left = count - _MOST
    return [f"{_INDENT}and {left:,} more {kind}{'s' * (left > 1)}{which}"] if left > 0 else []


def numbers_text(values: torch.Tensor, *, exact: bool = False) -> str:
    """Numbers with commas between them; exact: with all their digits, as ids need to differ."""
    shown = list(map(_exact if exact else _number, values[:_MOST].tolist()))
    shown += [f"... ({len(values)} in all)"] if len(values) > _MOST else []
    return ("; " if any("," in number for number in shown) else ", ").join(shown)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.5g}"


def _exact(value: float) -> str:
    """The fewest digits that no other float64 has, such as 1,414.5."""
    return format(Decimal(repr(value)).normalize(), ",f")


def _wrap(text: str, indent: str = _INDENT) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=indent, subsequent_indent=indent + "  " * bool(indent)
    )
