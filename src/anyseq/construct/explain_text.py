"""An Explanation as text of 80 columns."""

from __future__ import annotations

import textwrap

import torch

from anyseq.base import table
from anyseq.construct.explain import Explanation, Hit, Step
from anyseq.construct.stages import WHOLE
from anyseq.construct.told import Node

_WIDTH = 80
_MOST = 8  # tokens, heads, layers or numbers; the rest is counted
_INDENT = "   "


def explanation_text(made: Explanation) -> str:
    """x and T(x), then one paragraph a stage."""
    tokens = [
        (str(token + 1), _numbers(made.x[token]), _numbers(made.y[token]))
        for token in range(min(len(made.x), _MOST))
    ]
    lines = [f'What method "{made.method}" did to one input, in {made.layers:,} layers', ""]
    lines += textwrap.indent(table(("token", "x", "T(x)"), tokens), _INDENT).splitlines()
    lines += _more(len(made.x), "token")
    for number, step in enumerate(made.steps, 1):
        lines += ["", *_step(number, step, made.nodes)]
    lines += ["", *_wrap(_agreement(made), ""), *_wrap(f"Error: {made.bound}.", "")]
    return "\n".join(lines)


def _agreement(made: Explanation) -> str:
    if not made.covered:
        return (
            "The look-up does not speak of this x (an entry on a ramp, or outside the domain): "
            "only the network was asked."
        )
    if made.apart is None:
        return "The look-up of this method says nothing of stages: only the network was asked."
    if made.steps[0].stage.name == WHOLE:
        return (
            f'Method "{made.method}" names no stages: its layers are shown as one. The look-up, '
            f"which knows nothing of them, gives the same{_to(made.apart)}."
        )
    return (
        "The layers were run one by one. The look-up, which knows nothing of them, says the same "
        f"at every stage{_to(made.apart)}."
    )


def _step(number: int, step: Step, nodes: tuple[Node, ...]) -> list[str]:
    count, last = step.stage.layers, step.first + step.stage.layers
    layers = f"layer {last:,}" if count == 1 else f"layers {step.first + 1:,} to {last:,}"
    title = f"{number}. {step.stage.name}"
    lines = [title + layers.rjust(_WIDTH - len(title)), *_wrap(step.stage.does)]
    for note in step.notes:
        lines += _wrap(note)
    if step.stage.name == "interpolate":
        for node in nodes[:_MOST]:
            point, value = _numbers(node.point.flatten()), _numbers(node.value.flatten())
            lines += _wrap(f"node ({point}), weight {node.weight:.4g}: values {value}")
        lines += _more(len(nodes), "node")
    if not step.hits:
        return [*lines, *_wrap("Nothing to do for this x.")]
    for hit in step.hits[:_MOST]:
        lines += _wrap(f"layer {hit.layer + 1:,}: {_change(hit)}{_looks(hit)}")
    lines += _more(len(step.hits), "layer")
    lines += _readings(step.stage.reading.label, step.after)
    if step.apart is not None:
        lines += _wrap(f"The look-up says the same{_to(step.apart)}.")
    return lines


def _change(hit: Hit) -> str:
    """token 2: 16 -> 116; or what was added, if that was the same for all tokens."""
    changed = hit.changed
    added = hit.after - hit.before
    if len(changed) > 1 and len(changed) == len(added) and bool((added == added[0]).all()):
        return f"adds {_numbers(added[0])} to every token"
    parts = [
        f"token {token + 1}: {_numbers(hit.before[token])} -> {_numbers(hit.after[token])}"
        for token in changed[:_MOST]
    ]
    return ", ".join(parts) + (", ..." if len(changed) > _MOST else "")


def _looks(hit: Hit) -> str:
    """Where the heads of the changed tokens look."""
    parts = []
    for head, weights in list(hit.looks.items())[:_MOST]:
        bos = len(weights) - len(hit.after)
        weight, at = weights[[bos + token for token in hit.changed]].max(1)
        places = sorted(set(at.tolist()))
        one = len(places) == 1 and bool((weight > 0.999).all())
        parts.append(f"head {head + 1} at {_place(places[0], bos) if one else 'several'}")
    more = ", ..." if len(hit.looks) > _MOST else ""
    return f" (looking: {', '.join(parts)}{more})" if parts else ""


def _place(position: int, bos: int) -> str:
    return "BOS" if position < bos else f"token {position - bos + 1}"


def _readings(label: str, values: torch.Tensor) -> list[str]:
    """What was read off the tokens, in one line where that will do."""
    if len(values) > 1 and bool((values == values[0]).all()) and values.shape[1] > 1:
        return _wrap(f"{label}, in every token: {_numbers(values[0])}")
    if values.shape[1] == 1:
        return _wrap(f"{label}, token by token: {_numbers(values[:, 0])}")
    lines = []
    for token in range(min(len(values), _MOST)):
        lines += _wrap(f"{label}, token {token + 1}: {_numbers(values[token])}")
    return lines + _more(len(values), "token")


def _to(apart: float) -> str:
    return ", exactly" if apart == 0.0 else f", to {apart:.1g}"


def _more(count: int, kind: str) -> list[str]:
    left = count - _MOST
    return [f"{_INDENT}and {left:,} more {kind}{'s' * (left > 1)}"] if left > 0 else []


def _numbers(values: torch.Tensor) -> str:
    shown = list(map(_number, values[:_MOST].tolist()))
    shown += [f"... ({len(values)} in all)"] if len(values) > _MOST else []
    return ("; " if any("," in number for number in shown) else ", ").join(shown)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.5g}"


def _wrap(text: str, indent: str = _INDENT) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=indent, subsequent_indent=indent + "  " * bool(indent)
    )
