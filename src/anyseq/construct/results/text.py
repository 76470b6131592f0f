"""An Approximation on one screen of 80 columns."""

from __future__ import annotations

import textwrap

from anyseq.base import table_html
from anyseq.construct.network.built import Built
from anyseq.construct.request.error import CONDITIONAL, norm_name
from anyseq.construct.tables.fused_ridges import RidgeTable
from anyseq.design import positions_text
from anyseq.patterns import pattern_text
from anyseq.probability import prob_map_text

_MARGIN = 11
_STATUS = {CONDITIONAL: "unproved: constant estimated"}  # as readers see it
_MOST_ENTRIES = 32  # of an input that is written out


def summary(result: Built) -> str:
    """What was built, how large it is, and what is known of its error."""
    return "\n".join([_title(result), *(_row(*row) for row in _rows(result))])


def summary_html(result: Built) -> str:
    """The same for a notebook."""
    return table_html(("", ""), _rows(result), title=_title(result))


def _title(result: Built) -> str:
    status = _STATUS.get(result.facts.status, result.facts.status)
    return f'Approximation by method "{result.facts.method}", {status}'


def _rows(result: Built) -> list[tuple[str, str]]:
    facts, error, shape = result.facts, result.error, result.size
    norm = norm_name(error.norm, error.p)
    upper = ", no proven bound" if error.upper is None else f" <= {error.upper:.4g} proven"
    seen = "measured" if error.level is None else f"measured ({100 * error.level:.0f} % confidence)"
    rows = [
        ("design", _design(result)),
        (
            "network",
            f"{shape.layers:,} layers ({shape.attention_layers:,} with attention), width "
            f"{shape.width}, {shape.heads} heads of size {shape.head_dim}, {shape.hidden} ReLUs; "
            f"{shape.parameters:,} parameters",
        ),
        ("grid", _grid(result)) if facts.cells else ("fitted", _checked(result)),
        ("error", f"{error.lower:.4g} {seen} <= |f - T|{upper}; {norm}, tolerance {facts.tol:g}"),
        *(("", f"{term.name} {term.value:.3g}: {term.why}") for term in error.terms),
    ]
    if error.exceptional:
        rows.append(("exceptions", f"inputs of measure {error.exceptional:.3g} in all"))
    rows += [("assumes", text) for text in error.assumes]
    where = [[round(entry, 6) for entry in token] for token in error.at.tolist()]
    worst = f"x = {where}" if error.at.numel() <= _MOST_ENTRIES else "result.error.at"
    return [*rows, ("worst", f"off by {error.at_error:.4g} in one entry at {worst}")]


def _design(result: Built) -> str:
    design, shape = result.design, result.size
    return (
        f"{design.tokens} tokens x {shape.in_features} -> {shape.out_features} features, "
        f"{' then '.join(map(pattern_text, design.cycle))} attention, "
        f"{positions_text(design.position)}, {prob_map_text(design.probability)}"
    )


def steps_text(result: Built) -> str:
    """The width of its cells; of one wide layer, which has none, how fine its ridges are."""
    steps = round(1 / result.facts.step)
    if isinstance(result.fused, RidgeTable):
        return f"{steps} knots to a half-wave"
    return f"δ = 1/{steps}"


def _grid(result: Built) -> str:
    facts = result.facts
    parts = [steps_text(result), f"{facts.cells:,} values of f"]
    return ", ".join([*parts, _checked(result)] if facts.checked else parts)


def _checked(result: Built) -> str:
    return ", ".join(f"{name} {value}" for name, value in result.facts.checked.items())


def _row(label: str, text: str) -> str:
    return textwrap.fill(
        text,
        width=80,
        initial_indent=f"  {label}".ljust(_MARGIN + 2),
        subsequent_indent=" " * (_MARGIN + 2),
    )
