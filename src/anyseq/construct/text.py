"""An Approximation on one screen of 80 columns."""

from __future__ import annotations

import textwrap

from anyseq.construct.error import norm_name
from anyseq.construct.fused_ridges import RidgeTable
from anyseq.construct.result import Approximation

_MARGIN = 11
_MOST_ENTRIES = 32  # of an input that is written out


def summary(result: Approximation) -> str:
    """What was built, how large it is, and what is known of its error."""
    facts, error, shape = result.facts, result.error, result.size
    norm = norm_name(error.norm, error.p)
    upper = "not proved" if error.upper is None else f"<= {error.upper:.4g} proved"
    seen = "seen" if error.level is None else f"seen ({error.level:.0%} confidence)"
    lines = [
        f'Approximation by method "{facts.method}", {facts.status}',
        _row("design", _design(result)),
        _row(
            "network",
            f"{shape.layers:,} layers ({shape.attention_layers:,} with attention), width "
            f"{shape.width}, {shape.heads} heads of size {shape.head_dim}, {shape.hidden} ReLUs; "
            f"{shape.parameters:,} parameters",
        ),
        _row("grid", _grid(result)) if facts.cells else _row("fitted", _checked(result)),
        _row("error", f"{error.lower:.4g} {seen} <= |f - T| {upper}; {norm}, asked {facts.tol:g}"),
        *(_row("", f"{term.name} {term.value:.3g}: {term.why}") for term in error.terms),
    ]
    if error.exceptional:
        lines.append(_row("exceptions", f"inputs of measure {error.exceptional:.3g} in all"))
    lines += [_row("assumes", text) for text in error.assumes]
    where = [[round(entry, 6) for entry in token] for token in error.at.tolist()]
    worst = f"x = {where}" if error.at.numel() <= _MOST_ENTRIES else "result.error.at"
    lines.append(_row("worst", f"off by {error.at_error:.4g} in one entry at {worst}"))
    return "\n".join(lines)


def _design(result: Approximation) -> str:
    design, shape = result.design, result.size
    return (
        f"{design.tokens} tokens x {shape.in_features} -> {shape.out_features} features, "
        f"{', '.join(type(pattern).__name__ for pattern in design.cycle)} attention, "
        f"{type(design.position).__name__}, {design.probability.name}"
    )


def steps_text(result: Approximation) -> str:
    """The width of its cells; of one wide layer, which has none, how fine its ridges are."""
    steps = round(1 / result.facts.step)
    if isinstance(result.fused, RidgeTable):
        return f"{steps} knots to a half-wave"
    return f"δ = 1/{steps}"


def _grid(result: Approximation) -> str:
    facts = result.facts
    parts = [steps_text(result), f"{facts.cells:,} values of f"]
    return ", ".join([*parts, _checked(result)] if facts.checked else parts)


def _checked(result: Approximation) -> str:
    return ", ".join(f"{name} {value}" for name, value in result.facts.checked.items())


def _row(label: str, text: str) -> str:
    return textwrap.fill(
        text,
        width=80,
        initial_indent=f"  {label}".ljust(_MARGIN + 2),
        subsequent_indent=" " * (_MARGIN + 2),
    )
